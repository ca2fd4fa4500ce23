# tessera::libtorch, tensors and autograd: libtorch_cpu and libc10 themselves. Neither libtorch.so nor find_package(Torch),
# because both need the whole CUDA toolkit.
#
# Looked for in TESSERA_TORCH_DIR (environment or cache variable; an unpacked libtorch, or the folder `torch` of Python's
# site-packages), otherwise where scripts/setup.sh put it.
#
# Include order: a LibTorch folder also carries headers of other projects, fmt 12 among them, while our log library was
# compiled with the system's fmt. The folder is therefore searched last (-idirafter, which makes it a system folder too):
# <fmt/...> is the system's one in every room, and torch's own inline use of fmt compiles with it. In return a LibTorch
# of the system in /usr/include would take precedence over it, so that is refused.
if(NOT TESSERA_TORCH_DIR AND DEFINED ENV{TESSERA_TORCH_DIR})
  set(TESSERA_TORCH_DIR $ENV{TESSERA_TORCH_DIR} CACHE PATH "LibTorch" FORCE)
endif()
if(TESSERA_TORCH_DIR)
  set(torch_dir ${TESSERA_TORCH_DIR})
else()
  file(GLOB torch_dir ${CMAKE_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/torch)
endif()
set(version_header ${torch_dir}/include/torch/headeronly/version.h)
if(NOT torch_dir OR NOT EXISTS ${version_header})
  message(FATAL_ERROR "No LibTorch >= 2.11 in '${torch_dir}': run scripts/setup.sh, or let TESSERA_TORCH_DIR name an "
                      "unpacked libtorch or the folder torch of a site-packages folder")
endif()
file(REAL_PATH ${torch_dir} torch_dir)
file(STRINGS ${version_header} torch_version REGEX "\"[0-9]+\\.[0-9]+\\.[0-9]+.*\"" LIMIT_COUNT 1)
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" torch_version "${torch_version}")
if(torch_version VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch ${torch_version} in ${torch_dir} is too old: Tessera needs 2.11 or later; "
                      "unset TESSERA_TORCH_DIR and run scripts/setup.sh to get one")
endif()
foreach(dir /usr/include /usr/local/include)
  if(EXISTS ${dir}/ATen/ATen.h)
    message(FATAL_ERROR "${dir}/ATen would hide the headers of LibTorch in ${torch_dir}: remove the package that put it "
                        "there (libtorch-dev)")
  endif()
endforeach()
set(torch_kind "CPU build")
if(EXISTS ${torch_dir}/lib/libtorch_cuda.so)
  set(torch_kind "CUDA build")
endif()
message(STATUS "LibTorch ${torch_version} (${torch_kind}) from ${torch_dir}")

add_library(tessera_c10 SHARED IMPORTED)
set_target_properties(tessera_c10 PROPERTIES IMPORTED_LOCATION ${torch_dir}/lib/libc10.so)
add_library(tessera_torch_cpu SHARED IMPORTED)
set_target_properties(tessera_torch_cpu PROPERTIES IMPORTED_LOCATION ${torch_dir}/lib/libtorch_cpu.so)
add_library(tessera_libtorch INTERFACE)
add_library(tessera::libtorch ALIAS tessera_libtorch)
target_compile_options(tessera_libtorch INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-idirafter ${torch_dir}/include>"
  "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler=-idirafter -Xcompiler=${torch_dir}/include>")
# at::parallel_for is a plain loop in a file that was compiled without OpenMP.
target_compile_options(tessera_libtorch INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-fopenmp>"
                                                  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fopenmp>")
target_link_options(tessera_libtorch INTERFACE -fopenmp)
target_link_libraries(tessera_libtorch INTERFACE tessera_torch_cpu tessera_c10)
