# ccache and a fast linker, if they are installed, and the flags of our own code (tessera_flags; third-party headers are
# included as system headers, to which its warnings do not apply).
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # pch_defines and time_macros: ccache refuses precompiled headers without them. NOHASHDIR: build folders share results.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_NOHASHDIR=1
                                  ${CCACHE_PROGRAM})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

add_library(tessera_flags INTERFACE)
target_compile_features(tessera_flags INTERFACE cxx_std_20)
# Designated initializers leave members at their defaults on purpose. In a test a local may have the name of something that
# a neighbour, compiled together with it, keeps to itself.
set(shadow $<IF:$<BOOL:$<TARGET_PROPERTY:TESSERA_TEST>>,-Wshadow=local,-Wshadow>)
set(warnings -Wall -Wextra ${shadow} -Wconversion -Wno-missing-field-initializers)
if(TESSERA_WERROR)
  list(APPEND warnings -Werror)
endif()
# nvcc does not know these warnings, but passes them on to the C++ compiler.
list(JOIN warnings , warnings_by_nvcc)
target_compile_options(tessera_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>"
                                               "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${warnings_by_nvcc}>")
if(TESSERA_SANITIZE)
  # With the checks GCC warns wrongly of values that may be uninitialised (see its manual on -Wmaybe-uninitialized).
  target_compile_options(tessera_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${TESSERA_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer;-Wno-maybe-uninitialized>")
  target_link_options(tessera_flags INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()

find_program(MOLD_PROGRAM NAMES mold ld.mold)
find_program(LLD_PROGRAM NAMES ld.lld)
if(MOLD_PROGRAM)
  # Without RELRO: in a program with zero-initialised thread-local data, mold 1.10 lets the RELRO part begin in the gap
  # before it. If that gap has a page of its own (about one link in a thousand), the program does not start: "cannot apply
  # additional memory protection after relocation".
  target_link_options(tessera_flags INTERFACE -fuse-ld=mold -Wl,-z,norelro)
elseif(LLD_PROGRAM)
  target_link_options(tessera_flags INTERFACE -fuse-ld=lld)
endif()
# DT_RPATH instead of DT_RUNPATH: the libraries found at configure time win over a stray LD_LIBRARY_PATH.
target_link_options(tessera_flags INTERFACE -Wl,--disable-new-dtags)
