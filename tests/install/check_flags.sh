#!/bin/sh
# SPDX-License-Identifier: MIT
# Flags that change results stop the build with a message that names them: when it is configured, and when a file is
# compiled by hand.
#
#   check_flags.sh SOURCE BUILD CC
set -eu
source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "check_flags: $*"
  cat "$work/log"
  exit 1
}

# configure EXPECTED OPTION...: configuring must fail with this text in the message.
configure() {
  expected=$1
  shift
  rm -rf "$work/build"
  if cmake -S "$source" -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DADJOIN_TESTS=OFF -DADJOIN_BENCH=OFF "$@" \
    >"$work/log" 2>&1; then
    fail "configured with $*"
  fi
  tr '\n' ' ' <"$work/log" | grep -q -- "$expected, which" || fail "no word of $expected"
}

# Checks every flag with the function that the configuration calls. Flags that only look similar must pass.
cat >"$work/each.cmake" <<END
include($source/cmake/AdjoinExact.cmake)
foreach(flags -ffast-math "-O2 -Ofast" "-Ofast -g" -funsafe-math-optimizations "-Xcompiler=-ffast-math -O3"
    "-Xcompiler -Wall,-Ofast" -mrecip=all -mfpmath=387 --use_fast_math -use_fast_math "-O3 -ftz=true" -prec-div=false
    -fsingle-precision-constant)
  adjoin_find_inexact("\${flags}" found)
  if(NOT found)
    message(FATAL_ERROR "\${flags}: not found")
  endif()
endforeach()
foreach(flags "" -O3 --Ofast-compile=max -fno-fast-math "-march=native -mfma" -ftz=false -prec-div=true "-D X=-Ofaster"
    "-I/usr/include/-ffast-math-free")
  adjoin_find_inexact("\${flags}" found)
  if(found)
    message(FATAL_ERROR "\${flags}: \${found} found")
  endif()
endforeach()
END
cmake -P "$work/each.cmake" >"$work/log" 2>&1 || fail "the list of flags"

# Flags as users give them.
CFLAGS=-ffast-math configure "CMAKE_C_FLAGS has -ffast-math" -DADJOIN_CUDA=OFF
configure "CMAKE_C_FLAGS_RELEASE has -Ofast" -DADJOIN_CUDA=OFF -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-Ofast
LDFLAGS=-ffast-math configure "LINKER_FLAGS has -ffast-math" -DADJOIN_CUDA=OFF
CUDAFLAGS=--use_fast_math configure "CUDAFLAGS has --use_fast_math"
configure "CMAKE_CUDA_FLAGS has -ftz=true" -DCMAKE_CUDA_FLAGS=-ftz=true

# compile FLAG...: compiles one file by hand.
compile() {
  "$cc" -fsyntax-only -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I"$source/include" -I"$build/include" \
    -I"$source/src" "$@" "$source/src/distance/measure.c" >"$work/log" 2>&1
}
compile -std=c11 || fail "does not compile"
compile -ffp-contract=off -DADJI_UNFUSED || fail "does not compile with -ffp-contract=off"
for flag in -ffast-math -Ofast -ffinite-math-only; do
  ! compile -std=c11 "$flag" || fail "compiled with $flag"
  grep -q "same bits everywhere" "$work/log" || fail "no word of $flag"
done
# Clang has no macro for these flags, and does not fuse if a pragma forbids it.
if ! "$cc" --version | grep -qi clang; then
  ! compile -std=c11 -funsafe-math-optimizations || fail "compiled with -funsafe-math-optimizations"
  if [ "$(uname -m)" = x86_64 ]; then
    ! compile -mfma || fail "compiled with operations fused"
    grep -q "must not be fused" "$work/log" || fail "no word of fusing"
    ! compile -std=c11 -mfpmath=387 || fail "compiled with -mfpmath=387"
  fi
fi
echo "check_flags: all refused"
