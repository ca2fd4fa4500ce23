# The rooms of lib/ as CMake targets, held to the table in README.md (the rows that start with a room's name in
# backquotes; columns: room, may include, what lives there, heavy headers).
#
#   tessera_room(NAME SOURCES files... [CUDA_SOURCES files...] [NO_CUDA_SOURCES files...] [NEEDS rooms...]
#                [LINKS targets...])
#     Static library tessera_NAME. NEEDS may name only rooms that the table allows (base needs no mention). A room whose
#     last column starts with "torch" gets tessera::libtorch and the precompiled header. CUDA_SOURCES (.cpp or .cu)
#     are compiled, with CUDA's headers, if TESSERA_WITH_CUDA is on, and NO_CUDA_SOURCES if it is off.
#   tessera_program(NAME SOURCES files... NEEDS rooms...)
#     Program NAME in bin/.
set(README ${CMAKE_SOURCE_DIR}/README.md)
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${README})

# Sets ROOMS (in table order), and for each room ROOM_ALLOWS_<room> and ROOM_HEAVY_<room>.
function(tessera_read_room_table)
  file(READ ${README} text)
  string(REPLACE ";" "," text "${text}")
  string(REPLACE "\n" ";" lines "${text}")
  set(rooms)
  foreach(line IN LISTS lines)
    if(line MATCHES "^\\| `([a-z_]+)` \\| ([^|]*) \\| [^|]* \\| ([^|]*) \\|$")
      set(room ${CMAKE_MATCH_1})
      set(may_include "${CMAKE_MATCH_2}")
      set(heavy "${CMAKE_MATCH_3}")
      string(REGEX MATCHALL "[a-z_]+" allows "${may_include}")
      if(may_include STREQUAL "all above")
        set(allows ${rooms})
      endif()
      set(ROOM_ALLOWS_${room} base ${allows} PARENT_SCOPE)
      set(ROOM_HEAVY_${room} "${heavy}" PARENT_SCOPE)
      list(APPEND rooms ${room})
    endif()
  endforeach()
  if(NOT "train" IN_LIST rooms)
    message(FATAL_ERROR "No room table in README.md (rows such as: | `base` | - | ... | none |)")
  endif()
  set(ROOMS ${rooms} PARENT_SCOPE)
endfunction()
tessera_read_room_table()

function(tessera_check_needs room)
  if(NOT room IN_LIST ROOMS)
    message(FATAL_ERROR "Room ${room} is not in the room table of README.md")
  endif()
  foreach(need IN LISTS ARGN)
    if(NOT need IN_LIST ROOM_ALLOWS_${room})
      message(FATAL_ERROR "Room edge ${room} -> ${need} is not allowed by the room table of README.md; "
                          "${room} may include: ${ROOM_ALLOWS_${room}}")
    endif()
  endforeach()
endfunction()

# Makes TARGET, a precompiled header of LibTorch's tensors and of the further headers given, for targets with the same
# flags.
function(tessera_torch_headers target)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cpp CONTENT "// Compiles a precompiled header with torch.\n")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/${target}.cpp)
  target_link_libraries(${target} PRIVATE tessera_flags tessera::libtorch)
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # lets ccache see through the precompiled header
  target_precompile_headers(${target} PRIVATE <ATen/core/Tensor.h> <memory> <string> <vector> ${ARGN})
endfunction()
if(TESSERA_PCH)
  tessera_torch_headers(tessera_torch_headers)
endif()

# Lets TARGET, which uses the rooms given last, use HEADERS, made by tessera_torch_headers(), if one of them includes
# torch. Up to eight of its sources are then compiled at once, for they share torch's templates, which take most of the
# time. What a source keeps to itself (in an anonymous namespace, or by `using`) needs a name that no neighbour has.
function(tessera_use_torch_headers target headers)
  foreach(room IN LISTS ARGN)
    if("${ROOM_HEAVY_${room}}" MATCHES "^torch" AND NOT "${ROOM_HEAVY_${room}}" MATCHES "^torch in")
      if(TESSERA_PCH)
        target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
        target_precompile_headers(${target} REUSE_FROM ${headers})
        set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
      endif()
      return()
    endif()
  endforeach()
endfunction()

function(tessera_room room)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;CUDA_SOURCES;NO_CUDA_SOURCES;NEEDS;LINKS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "tessera_room(${room} SOURCES files... ...): ${arg_UNPARSED_ARGUMENTS}")
  endif()
  tessera_check_needs(${room} ${arg_NEEDS})
  set(target tessera_${room})
  add_library(${target} STATIC ${arg_SOURCES})
  # Stand-ins for a GPU replace these, object by object.
  set_source_files_properties(${arg_CUDA_SOURCES} ${arg_NO_CUDA_SOURCES} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/lib)
  target_link_libraries(${target} PRIVATE tessera_flags)
  if(TESSERA_WITH_CUDA AND arg_CUDA_SOURCES)
    target_sources(${target} PRIVATE ${arg_CUDA_SOURCES})
    target_link_libraries(${target} PRIVATE tessera::cuda_headers)
  elseif(NOT TESSERA_WITH_CUDA)
    target_sources(${target} PRIVATE ${arg_NO_CUDA_SOURCES})
  endif()
  if(NOT room STREQUAL base)
    list(APPEND arg_NEEDS base)
  endif()
  list(REMOVE_DUPLICATES arg_NEEDS)
  list(TRANSFORM arg_NEEDS PREPEND tessera_)
  target_link_libraries(${target} PUBLIC ${arg_NEEDS} ${arg_LINKS})
  if("${ROOM_HEAVY_${room}}" MATCHES "^torch")
    target_link_libraries(${target} PUBLIC tessera::libtorch)
  endif()
  tessera_use_torch_headers(${target} tessera_torch_headers ${room})
endfunction()

# In a build with CUDA, links PROGRAM with LIBRARY, which implements CUDA for the rooms. The linker's language stays
# C++.
function(tessera_link_cuda program library)
  if(TESSERA_WITH_CUDA)
    target_link_libraries(${program} PRIVATE ${library} tessera::cuda_headers)
    set_target_properties(${program} PROPERTIES LINKER_LANGUAGE CXX)
  endif()
endfunction()

function(tessera_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;NEEDS")
  add_executable(${name} ${arg_SOURCES})
  list(TRANSFORM arg_NEEDS PREPEND tessera_)
  target_link_libraries(${name} PRIVATE tessera_flags ${arg_NEEDS})
  tessera_link_cuda(${name} tessera::cuda_runtime)
endfunction()
