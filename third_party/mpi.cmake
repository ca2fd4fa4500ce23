# MPI::MPI_CXX, the C interface of MPI for C++ sources (the removed C++ bindings stay out), and MPIEXEC_EXECUTABLE for
# the tests with several ranks. Debian: libopenmpi-dev, openmpi-bin (4.1).
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI 3.1 REQUIRED COMPONENTS CXX)
