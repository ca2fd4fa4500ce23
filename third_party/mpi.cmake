# MPI::MPI_C, MPI's C interface, for C++ sources (the removed C++ bindings stay out), and MPIEXEC_EXECUTABLE for the
# tests with several ranks. Debian: libopenmpi-dev, openmpi-bin (4.1).
find_package(MPI 3.1 REQUIRED COMPONENTS C)
target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
