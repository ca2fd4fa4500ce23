# Test programs and their CTest entries.
#
#   tessera_test(ROOM SOURCES files... [NEEDS rooms...] [RANKS 1 2 4] [LABELS labels...] [DATA paths...] [LINKS targets...]
#                [CUDA_DOUBLE])
#     Program test_ROOM (below test/unit/; elsewhere test_FOLDER_ROOM) with the shared main, and one CTest entry for each
#     rank count: test_ROOM for one rank, test_ROOM_ranksN under mpirun. LABELS defaults to unit; ranksN is added. With
#     RANKS the main starts the world of ranks (see test/support/ranks.h).
#     DATA are files the tests read, relative to the folder; a missing one fails the entry by name. Tests find the source
#     tree by the macro TESSERA_SOURCE_DIR.
#     With the label gpu (one rank only) the main takes the first GPU as tensor_device(Place::cuda); without a GPU the
#     entry counts as skipped and prints what is missing.
#     Shared code in test/support/ is linked with the room that it is about: tessera_test_runs with train,
#     tessera_test_model and tessera_test_huggingface on request, tessera_test_files always.
#     CUDA_DOUBLE: the test runs on test/support/cuda_double/ instead of the CUDA runtime and NCCL, without a GPU; a
#     build without CUDA leaves it out.
add_library(tessera_test_session STATIC ${CMAKE_SOURCE_DIR}/test/support/session.cpp
                                        ${CMAKE_SOURCE_DIR}/test/support/skips.cpp
                                        ${CMAKE_SOURCE_DIR}/test/support/watchdog.cpp)
target_include_directories(tessera_test_session PUBLIC ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR}/test)
target_compile_definitions(tessera_test_session PUBLIC TESSERA_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_link_libraries(tessera_test_session PUBLIC Catch2::Catch2 PRIVATE tessera_flags)
add_library(tessera_test_main OBJECT ${CMAKE_SOURCE_DIR}/test/support/main.cpp)
target_link_libraries(tessera_test_main PUBLIC tessera_test_session PRIVATE tessera_flags)
add_library(tessera_test_ranked_main OBJECT ${CMAKE_SOURCE_DIR}/test/support/ranked_main.cpp)
target_link_libraries(tessera_test_ranked_main PUBLIC tessera_test_session tessera_comm PRIVATE tessera_flags)
add_library(tessera_test_gpu_main OBJECT ${CMAKE_SOURCE_DIR}/test/support/gpu_main.cpp)
target_link_libraries(tessera_test_gpu_main PUBLIC tessera_test_session tessera_device PRIVATE tessera_flags)

# Tests are compiled with few optimisations, for a short build: their run time is spent in lib/.
set(TESSERA_TEST_OPTIONS $<$<COMPILE_LANG_AND_ID:CXX,GNU>:$<$<CONFIG:RelWithDebInfo>:-Og>>)
if(TESSERA_PCH)
  tessera_torch_headers(tessera_torch_test_headers <c10/util/Logging.h>)  # before Catch2, which has a CHECK too
  target_compile_options(tessera_torch_test_headers PRIVATE ${TESSERA_TEST_OPTIONS})
endif()

# Code that tests share, each compiled once.
#   tessera_test_files        commands in processes of their own; a file system with faults
#   tessera_test_model        the model as plain single-process code
#   tessera_test_huggingface  HuggingFace folders
#   tessera_test_runs         small runs and what they leave
function(tessera_test_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;NEEDS;LINKS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC ${CMAKE_SOURCE_DIR}/lib ${CMAKE_SOURCE_DIR}/test)
  set(rooms ${arg_NEEDS})
  list(TRANSFORM arg_NEEDS PREPEND tessera_)
  target_link_libraries(${name} PUBLIC tessera_base ${arg_NEEDS} ${arg_LINKS} PRIVATE Catch2::Catch2 tessera_flags)
  target_compile_options(${name} PRIVATE ${TESSERA_TEST_OPTIONS})
  tessera_use_torch_headers(${name} tessera_torch_test_headers ${rooms})
  set_target_properties(${name} PROPERTIES TESSERA_TEST ON)
endfunction()
set(support ${CMAKE_SOURCE_DIR}/test/support)
tessera_test_library(tessera_test_files SOURCES ${support}/command.cpp ${support}/faulty_files.cpp)
tessera_test_library(tessera_test_model SOURCES ${support}/composed_model.cpp NEEDS architecture model)
tessera_test_library(tessera_test_huggingface SOURCES ${support}/huggingface_folder.cpp NEEDS architecture checkpoint)
tessera_test_library(tessera_test_runs
  SOURCES ${support}/finished_command.cpp ${support}/run_output.cpp ${support}/saved_numbers.cpp ${support}/small_run.cpp
  NEEDS train
  LINKS tessera_test_model tessera_test_huggingface)

# What Open MPI needs to start more ranks than cores, as root and in a container.
set(TESSERA_MPI_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_vader_single_copy_mechanism=none)
# Of every test. New and freed memory is filled with garbage: fresh pages are zero, which would hide that a read came too
# early. Threads that wait sleep: spinning, those of two programs on the same cores keep each other from working.
# On a machine with GPUs too they are about the CPU, but those labelled gpu.
set(TESSERA_TEST_ENVIRONMENT ${TESSERA_MPI_ENVIRONMENT} MALLOC_PERTURB_=128 OMP_WAIT_POLICY=passive CUDA_VISIBLE_DEVICES=-1)
# Of tests under mpirun too. Open MPI keeps memory until the process ends, which is no leak of ours.
set(TESSERA_NO_LEAK_CHECK ASAN_OPTIONS=detect_leaks=0)
set(TESSERA_RANKED_TEST_ENVIRONMENT ${TESSERA_TEST_ENVIRONMENT} OMP_NUM_THREADS=1 ${TESSERA_NO_LEAK_CHECK})

function(tessera_test room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "CUDA_DOUBLE" "" "SOURCES;NEEDS;RANKS;LABELS;DATA;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "tessera_test(${room} SOURCES files... ...): ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(cuda tessera::cuda_runtime)
  if(arg_CUDA_DOUBLE)
    if(NOT TESSERA_WITH_CUDA)
      return()
    endif()
    set(cuda tessera_cuda_double)
  endif()
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/test ${CMAKE_CURRENT_SOURCE_DIR})
  string(REGEX REPLACE "/.*" "" folder "${folder}")
  set(program test_${folder}_${room})
  if(folder STREQUAL unit)
    set(program test_${room})
  endif()
  add_executable(${program} ${arg_SOURCES})
  set(rooms ${arg_NEEDS} base)
  if(room IN_LIST ROOMS)
    list(PREPEND rooms ${room})
  endif()
  list(REMOVE_DUPLICATES rooms)
  list(TRANSFORM rooms PREPEND tessera_ OUTPUT_VARIABLE needs)
  list(APPEND needs tessera_test_files)
  if(train IN_LIST rooms)
    list(PREPEND needs tessera_test_runs)
  endif()
  set(main tessera_test_main)
  if(gpu IN_LIST arg_LABELS)
    set(main tessera_test_gpu_main)
  elseif(arg_RANKS)
    set(main tessera_test_ranked_main)
  endif()
  target_link_libraries(${program} PRIVATE tessera_flags ${main} ${needs} ${arg_LINKS})
  tessera_link_cuda(${program} ${cuda})
  target_compile_options(${program} PRIVATE ${TESSERA_TEST_OPTIONS})
  tessera_use_torch_headers(${program} tessera_torch_test_headers ${rooms})
  set_target_properties(${program} PROPERTIES TESSERA_TEST ON)

  if(NOT arg_RANKS)
    set(arg_RANKS 1)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  list(TRANSFORM arg_DATA PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  foreach(ranks IN LISTS arg_RANKS)
    set(entry ${program}_ranks${ranks})
    set(start ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks})
    set(environment ${TESSERA_RANKED_TEST_ENVIRONMENT})
    if(ranks EQUAL 1)
      set(entry ${program})
      set(start)
      set(environment ${TESSERA_TEST_ENVIRONMENT})
    endif()
    if(gpu IN_LIST arg_LABELS)
      list(REMOVE_ITEM environment CUDA_VISIBLE_DEVICES=-1)
      if(ranks EQUAL 1)
        set_property(GLOBAL APPEND PROPERTY TESSERA_GPU_TESTS ${program})  # for test/device_check
      endif()
    endif()
    add_test(NAME ${entry} COMMAND ${start} $<TARGET_FILE:${program}>)
    set_tests_properties(${entry} PROPERTIES
      LABELS "${arg_LABELS};ranks${ranks}" PROCESSORS ${ranks} TIMEOUT 600 REQUIRED_FILES "${arg_DATA}"
      ENVIRONMENT "${environment}")
    if(gpu IN_LIST arg_LABELS)
      set_tests_properties(${entry} PROPERTIES SKIP_RETURN_CODE 77)
    endif()
  endforeach()
endfunction()
