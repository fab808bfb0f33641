# SPDX-License-Identifier: MIT
# How every C file of the project is compiled. Results must have the same bits everywhere, so the compiler may neither
# fuse nor reorder floating-point operations: -ffp-contract=off, and no fast-math in any configuration. The flags of
# kernels, and those that nvcc passes to the host's compiler, are defaults of nvcc, but are stated all the same.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()

include(AdjoinExact)
adjoin_refuse_inexact(CMAKE_C_FLAGS CMAKE_EXE_LINKER_FLAGS CMAKE_SHARED_LINKER_FLAGS)
if(ADJOIN_CUDA)
  set(CUDAFLAGS "$ENV{CUDAFLAGS}")
  adjoin_refuse_inexact(CUDAFLAGS CMAKE_CUDA_FLAGS)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

add_compile_definitions(_POSIX_C_SOURCE=200809L _DEFAULT_SOURCE ADJI_UNFUSED)
add_compile_options($<$<COMPILE_LANGUAGE:C>:-ffp-contract=off>)
set(adjoin_warnings -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes)
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  list(APPEND adjoin_warnings -Wshorten-64-to-32) # sizes are 64-bit: narrowing one needs a cast
endif()
if(ADJOIN_WERROR)
  list(APPEND adjoin_warnings -Werror)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:C>:${adjoin_warnings}>")

# No warning 128: instances for any number of dimensions may have loops over 0 dimensions.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-ftz=false;-prec-div=true;-prec-sqrt=true;\
-Xcompiler=-ffp-contract=off;-diag-suppress=128>")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -DNDEBUG")

# Libraries outside the system's folders must still be found after installation. Installed files are linked with their
# final search path from the start. A path that CMake replaces during installation ends in ":" until then, and that
# makes the loader search the current folder.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Reports of sanitizers need lines and names of functions, which is -g1. Full -g takes a third of the build's time.
if(ADJOIN_SANITIZE)
  add_compile_options(-fsanitize=${ADJOIN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ADJOIN_SANITIZE})
endif()

if(ADJOIN_COVERAGE)
  add_compile_options(--coverage -fprofile-update=atomic)
  add_link_options(--coverage)
endif()

if(ADJOIN_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ADJOIN_FUZZ needs clang, the compiler is ${CMAKE_C_COMPILER_ID}")
  endif()
  # This instruments the library. The targets of tests/fuzz add -fsanitize=fuzzer, which provides main().
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=address,undefined)
endif()

# Kernels are compiled once for each common dimension. This is most of the build's time.
if(ADJOIN_FEW_INSTANCES OR ADJOIN_SANITIZE OR ADJOIN_COVERAGE OR ADJOIN_FUZZ)
  add_compile_definitions(ADJOIN_FEW_INSTANCES)
endif()

# Gives the sources of an instruction set the flags of that set, and drops sources that do not fit this processor
# family. The set is in the name: kernel_avx2.c, sort_avx512.c, kernel_neon.c. list is the name of a list variable.
function(adjoin_isa_sources list)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
    set(foreign "_neon\\.c$")
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(foreign "_avx(2|512)\\.c$")
  else()
    set(foreign "_(neon|avx2|avx512)\\.c$")
  endif()
  set(sources ${${list}})
  list(FILTER sources EXCLUDE REGEX ${foreign})
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.c$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mbmi2")
    elseif(source MATCHES "_avx512\\.c$")
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mfma;-mbmi2;-mpopcnt")
    endif()
  endforeach()
  set(${list} ${sources} PARENT_SCOPE)
endfunction()
