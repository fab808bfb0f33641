# SPDX-License-Identifier: MIT
# Protections that make an error in memory end the process instead of giving it to who wrote the input. Each is used
# where the compiler and the linker accept it. What they cost is in docs/performance.md; ADJOIN_HARDEN=OFF leaves all out.
#   adjoin_hardening   those in use, as tests/install/test_binaries.py and the summary name them
#
# Instrumented builds have none: sanitizers find more, and their own string functions do not go with _FORTIFY_SOURCE.
set(adjoin_hardening "")
set(CMAKE_POSITION_INDEPENDENT_CODE ON) # programs too, which are then loaded at a random address
include(CheckPIESupported)
check_pie_supported(LANGUAGES C)
if(CMAKE_C_LINK_PIE_SUPPORTED)
  list(APPEND adjoin_hardening pie)
endif()

# Sources that take none of what a function pays for at each call: kernels that are called for every query, and see
# nothing but the library's own arrays. With it kNN joins took 1 to 3 % more. Called in the sources' own folder.
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

# To the compiler of C, and through nvcc to that of host code.
function(adjoin_add_hardening flag)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:${flag}> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${flag}>)
endfunction()

# adjoin_harden(NAME FLAG): if the compiler has it. A warning that it does not is a refusal.
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

# The highest level of checked string functions that the C library has for this compiler. They need optimisation, and
# whoever names a level in CFLAGS, as distributions do, gets that one. In .cu files, whose headers nvcc's own parser reads
# first, it changes nothing, so they do without.
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

# Everything that the loader writes is read-only before main() begins, and no stack is executable.
foreach(flag relro now noexecstack)
  check_linker_flag(C -Wl,-z,${flag} ADJOIN_LINKS_${flag})
  if(ADJOIN_LINKS_${flag})
    add_link_options(-Wl,-z,${flag})
    list(APPEND adjoin_hardening ${flag})
  endif()
endforeach()
