# SPDX-License-Identifier: MIT
# Protections that make a memory error end the process, so that the author of a hostile input cannot take it over. Each
# is used if the compiler and the linker accept it. Their cost is in docs/performance.md. ADJOIN_HARDEN=OFF leaves all
# out.
#   adjoin_hardening   those in use, by the names of tests/install/test_binaries.py and the summary
#
# Instrumented builds have none: sanitizers find more, and their string functions are incompatible with _FORTIFY_SOURCE.
set(adjoin_hardening "")
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # for programs too, so that they are loaded at a random address
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
if(CMAKE_C_LINK_PIE_SUPPORTED)
  list(APPEND adjoin_hardening pie)
endif()

# Exempts sources from protections that cost something at each call of a function: kernels that are called for every
# query and see only the library's own arrays. With these protections kNN joins took 1 to 3 % longer. Call this in the
# folder of the sources.
function(adjoin_harden_less)
  foreach(name stack-protector stack-clash)
    if(name IN_LIST adjoin_hardening)
      string(REPLACE "stack-clash" "stack-clash-protection" flag ${name})
      set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS -fno-${flag})
    endif()
  endforeach()
endfunction()

if(NOT ADJOIN_HARDEN OR ADJOIN_SANITIZE OR ADJOIN_COVERAGE OR ADJOIN_FUZZ)
  return()
endif()
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)
include(CheckLinkerFlag)

# Adds flags for the C compiler and, through nvcc, for the compiler of host code.
function(adjoin_add_hardening flag)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
endfunction()

# adjoin_harden(NAME FLAG): uses the flag if the compiler has it. A warning about the flag counts as a refusal.
function(adjoin_harden name flag)
  string(MAKE_C_IDENTIFIER "ADJOIN_HAS_${name}" variable)
  set(CMAKE_REQUIRED_FLAGS -Werror)
  check_c_compiler_flag(${flag} ${variable})
  if(${variable})
    adjoin_add_hardening(${flag})
    set(adjoin_hardening ${adjoin_hardening} ${name} PARENT_SCOPE)
  endif()
endfunction()

adjoin_harden(stack-protector -fstack-protector-strong)
adjoin_harden(stack-clash -fstack-clash-protection)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  adjoin_harden(cet -fcf-protection=full)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  adjoin_harden(branch-protection -mbranch-protection=standard)
endif()

# The highest level of checked string functions that the C library has for this compiler. They need optimisation. If
# CFLAGS name a level, as in distributions, that level is used. .cu files do without: nvcc's own parser reads their
# headers first, so the level changes nothing there.
if(CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$" AND NOT CMAKE_C_FLAGS MATCHES "_FORTIFY_SOURCE")
  foreach(level 3 2)
    set(CMAKE_REQUIRED_FLAGS "-Werror -O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=${level}")
    check_c_source_compiles("#include <string.h>
      #if __USE_FORTIFY_LEVEL < ${level}
      #error
      #endif
      int main(void) { return 0; }" ADJOIN_HAS_FORTIFY_${level})
    if(ADJOIN_HAS_FORTIFY_${level})
      list(APPEND adjoin_hardening fortify-${level})
      add_compile_options("$<$<COMPILE_LANGUAGE:C>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=${level}>")
      break()
    endif()
  endforeach()
endif()
unset(CMAKE_REQUIRED_FLAGS)

# What the loader writes becomes read-only before main() begins, and no stack is executable.
foreach(flag relro now noexecstack)
  check_linker_flag(C -Wl,-z,${flag} ADJOIN_LINKS_${flag})
  if(ADJOIN_LINKS_${flag})
    add_link_options(-Wl,-z,${flag})
    list(APPEND adjoin_hardening ${flag})
  endif()
endforeach()
