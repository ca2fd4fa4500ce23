# Support for NVIDIA GPUs, if TESSERA_CUDA (auto, on or off) allows it. Sets TESSERA_WITH_CUDA and makes
#   tessera::cuda_headers   the folders of cuda_runtime_api.h and nccl.h: for rooms with CUDA_SOURCES
#   tessera::cuda_runtime   libcudart and libnccl too: for programs
# Needs nvcc of the CUDA that LibTorch was built with, NCCL, and the libraries of libtorch_cuda.so. A small program that
# does what ours does at run time is built and run once to see that all fits; auto is off if it does not. Programs do not
# link libtorch_cuda.so: lib/device/cuda/gpu.cpp loads it when there is a GPU, so that a run on the CPU starts as fast as
# in a build without CUDA.
set(TESSERA_WITH_CUDA OFF)

if(DEFINED ENV{CUDACXX})
  find_program(TESSERA_NVCC $ENV{CUDACXX} DOC "The CUDA compiler")
else()
  find_program(TESSERA_NVCC nvcc PATHS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin DOC "The CUDA compiler")
endif()

# Sets CUDA_MISSING to the reason why CUDA cannot be used and what to do about it, or to nothing.
function(tessera_find_cuda)
  set(CUDA_MISSING "" PARENT_SCOPE)
  if(NOT TESSERA_NVCC)
    set(CUDA_MISSING "there is no nvcc; install CUDA 13.0, and put nvcc on PATH or let CUDACXX name it" PARENT_SCOPE)
    return()
  endif()
  if(NOT EXISTS ${torch_dir}/lib/libtorch_cuda.so)
    set(CUDA_MISSING "the LibTorch in ${torch_dir} is a CPU build; let TESSERA_TORCH_DIR name a CUDA build, or unset it \
and run scripts/setup.sh --cuda" PARENT_SCOPE)
    return()
  endif()
  file(REAL_PATH ${TESSERA_NVCC} nvcc)
  cmake_path(GET nvcc PARENT_PATH toolkit)
  cmake_path(GET toolkit PARENT_PATH toolkit)
  # The wheels on which torch depends are installed beside it.
  cmake_path(GET torch_dir PARENT_PATH packages)
  set(nvidia ${packages}/nvidia)
  find_path(TESSERA_CUDA_INCLUDE cuda_runtime_api.h PATHS ${toolkit} ${nvidia}/cu13 PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_library(TESSERA_CUDART NAMES cudart libcudart.so.13 PATHS ${toolkit} ${nvidia}/cu13 PATH_SUFFIXES lib64 lib
               NO_DEFAULT_PATH)
  # LibTorch's own NCCL is preferred, since a process can have only one.
  find_path(TESSERA_NCCL_INCLUDE nccl.h PATHS ${nvidia}/nccl ${toolkit} PATH_SUFFIXES include NO_DEFAULT_PATH)
  find_path(TESSERA_NCCL_INCLUDE nccl.h)
  find_library(TESSERA_NCCL NAMES nccl libnccl.so.2 PATHS ${nvidia}/nccl ${toolkit} PATH_SUFFIXES lib64 lib NO_DEFAULT_PATH)
  find_library(TESSERA_NCCL NAMES nccl libnccl.so.2)
  if(NOT TESSERA_CUDA_INCLUDE OR NOT TESSERA_CUDART)
    set(CUDA_MISSING "cuda_runtime_api.h or libcudart is not beside ${nvcc}; install the whole CUDA 13.0" PARENT_SCOPE)
  elseif(NOT TESSERA_NCCL_INCLUDE OR NOT TESSERA_NCCL)
    set(CUDA_MISSING "there is no NCCL (nccl.h, libnccl); run scripts/setup.sh --cuda, or install libnccl-dev" PARENT_SCOPE)
  endif()
endfunction()

# Sets CUDA_MISSING likewise; caches TESSERA_CUDA_TRIED, the combination that works, and TESSERA_CUDA_VERSIONS.
function(tessera_try_cuda)
  set(CUDA_MISSING "" PARENT_SCOPE)
  set(trying "${TESSERA_NVCC} ${CMAKE_CXX_COMPILER} ${torch_dir} ${TESSERA_CUDART} ${TESSERA_NCCL}")
  if(TESSERA_CUDA_TRIED STREQUAL trying)
    return()
  endif()
  set(program ${CMAKE_BINARY_DIR}/CMakeFiles/cuda_starts)
  cmake_path(GET TESSERA_CUDART PARENT_PATH cuda_folder)
  cmake_path(GET TESSERA_NCCL PARENT_PATH nccl_folder)
  execute_process(
    COMMAND ${TESSERA_NVCC} -std=c++20 -ccbin ${CMAKE_CXX_COMPILER} -cudart none -arch=sm_80
            -isystem ${TESSERA_CUDA_INCLUDE} -isystem ${TESSERA_NCCL_INCLUDE} ${CMAKE_SOURCE_DIR}/third_party/cuda_starts.cu
            ${TESSERA_CUDART} ${TESSERA_NCCL} -ldl -o ${program}
            -Xlinker --disable-new-dtags -Xlinker -rpath=${cuda_folder}:${nccl_folder}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(failed)
    string(STRIP "${output}" output)
    set(CUDA_MISSING "${TESSERA_NVCC} with ${CMAKE_CXX_COMPILER} does not make a program (${output}); install CUDA 13.0, \
or let CXX name a compiler that it takes" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND ${program} ${torch_dir}/lib RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(STRIP "${output}" output)
  if(failed)
    set(CUDA_MISSING "LibTorch's CUDA part does not start (${output}); run scripts/setup.sh --cuda, \
and let nvcc be of the CUDA of LibTorch, with all of its libraries" PARENT_SCOPE)
    return()
  endif()
  set(TESSERA_CUDA_TRIED "${trying}" CACHE INTERNAL "The combination with which LibTorch's CUDA part starts")
  set(TESSERA_CUDA_VERSIONS "${output}" CACHE INTERNAL "The versions that the trial printed")
endfunction()

string(TOLOWER "${TESSERA_CUDA}" cuda_asked)
if(NOT cuda_asked MATCHES "^(auto|on|off)$")
  message(FATAL_ERROR "TESSERA_CUDA = ${TESSERA_CUDA} is none of auto, on, off")
elseif(cuda_asked STREQUAL "off")
  set(CUDA_MISSING "TESSERA_CUDA is off")
else()
  tessera_find_cuda()
  if(NOT CUDA_MISSING)
    tessera_try_cuda()
  endif()
endif()
if(CUDA_MISSING AND cuda_asked STREQUAL "on")
  message(FATAL_ERROR "TESSERA_CUDA is on, but ${CUDA_MISSING}")
elseif(CUDA_MISSING)
  message(STATUS "CUDA: left out, since ${CUDA_MISSING}")
  return()
endif()

set(TESSERA_WITH_CUDA ON)
message(STATUS "${TESSERA_CUDA_VERSIONS}: ${TESSERA_NVCC}, ${TESSERA_NCCL}; for ${TESSERA_CUDA_ARCHITECTURES}")
set(CMAKE_CUDA_COMPILER ${TESSERA_NVCC})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
set(CMAKE_CUDA_ARCHITECTURES ${TESSERA_CUDA_ARCHITECTURES})
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # tessera::cuda_runtime, or a test's double of it
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O2 -Xcompiler=-g1 -DNDEBUG")
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

add_library(tessera_cuda_headers INTERFACE)
add_library(tessera::cuda_headers ALIAS tessera_cuda_headers)
target_include_directories(tessera_cuda_headers SYSTEM INTERFACE ${TESSERA_CUDA_INCLUDE} ${TESSERA_NCCL_INCLUDE})
# --as-needed: a program that does not call NCCL does not load its 200 MB.
set(CMAKE_LINK_LIBRARY_USING_as_needed "LINKER:--push-state,--as-needed" "<LINK_ITEM>" "LINKER:--pop-state")
set(CMAKE_LINK_LIBRARY_USING_as_needed_SUPPORTED TRUE)
add_library(tessera_cuda_runtime INTERFACE)
add_library(tessera::cuda_runtime ALIAS tessera_cuda_runtime)
target_link_libraries(tessera_cuda_runtime INTERFACE
  tessera_cuda_headers "$<LINK_LIBRARY:as_needed,${TESSERA_CUDART},${TESSERA_NCCL}>")
