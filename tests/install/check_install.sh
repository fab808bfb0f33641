#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs a build into an empty folder, moves that folder, and then uses it like any user.
#   check_install.sh SOURCE_DIR BUILD_DIR C_COMPILER
set -eu
source=$1 build=$2 cc=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
step() { printf '== %s\n' "$*"; }

step "install, then move the installation"
cmake --install "$build" --prefix "$work/first" >"$work/install.log" || { cat "$work/install.log"; exit 1; }
mv "$work/first" "$work/moved"
prefix=$work/moved
lib=$(dirname "$(dirname "$(find "$prefix" -name adjoin.pc)")")
export PKG_CONFIG_PATH="$lib/pkgconfig"

step "the headers are C11 and C++17 without a warning"
strict="-Wall -Wextra -pedantic -Werror -fsyntax-only"
printf '#include <adjoin.h>\n#include <adjoin_cuda.h>\n#include <adjoin_share.h>\n' >"$work/header.c"
cp "$work/header.c" "$work/header.cc"
# shellcheck disable=SC2086 # lists of flags are meant to split, here and below
"$cc" -std=c11 $strict -I"$prefix/include" "$work/header.c"
if command -v c++ >/dev/null; then
  # shellcheck disable=SC2086
  c++ -std=c++17 $strict -I"$prefix/include" "$work/header.cc"
else
  echo "no C++ compiler: skipped"
fi

# The library exports every function that the headers declare, and nothing else.
if [ -e "$lib/libadjoin.so" ] && command -v nm >/dev/null; then
  step "exported symbols are those of the headers"
  # adji_: functions that libadjoin_mpi uses, which has the same version.
  nm -D --defined-only "$lib/libadjoin.so" | awk '$3 !~ /^adji_/ { print $3 }' | sort >"$work/exported"
  cat "$prefix/include/adjoin.h" "$prefix/include/adjoin_cuda.h" "$prefix/include/adjoin_share.h" | tr '\n' ' ' | grep -o 'ADJ_API [^(;]*(' | grep -o 'adj_[a-z0-9_]*($' | tr -d '(' |
    sort -u >"$work/declared"
  diff "$work/declared" "$work/exported" || { echo "< declared, > exported"; exit 1; }
fi

# Until 1.0 a minor version may break the ABI, so it is part of the library's name.
if [ -e "$lib/libadjoin.so" ] && command -v readelf >/dev/null; then
  step "the shared library's name"
  soname=$(sed -E 's/^(0\.[0-9]+|[1-9][0-9]*)\..*/libadjoin.so.\1/' "$source/VERSION")
  readelf -d "$lib/libadjoin.so" | grep -F "SONAME" | grep -F "[$soname]"
fi

if [ -x "$prefix/bin/adjoin" ]; then
  step "the program finds its library beside itself"
  "$prefix/bin/adjoin" --version
fi

step "the manual page and the documents that it names"
for page in man/man1/adjoin.1 doc/adjoin/formats.md doc/adjoin/tuning.md doc/adjoin/exactness.md doc/adjoin/c-api.md; do
  test -s "$prefix/share/$page" || { echo "share/$page is not there"; exit 1; }
done

# run_all FOLDER: runs every example in a folder. Two have known answers.
run_all() {
  for source_file in "$source"/examples/*.c; do
    example=$(basename "$source_file" .c)
    "$1/$example" >"$work/$example.out" || { echo "$example failed"; exit 1; }
  done
  printf '0: 1 2 7\n1: 0 2 7\n2: 0 1 7\n3: 4 6\n4: 3 6\n5:\n6: 3 4\n7: 0 1 2\n18 pairs\n' >"$work/expected"
  diff "$work/expected" "$work/first_join.out"
  grep -qx 'house 0: well 0 at 1, well 1 at 1, well 4 at 1' "$work/nearest.out"
  cat "$work/two_sets.out" "$work/stream.out"
}

step "examples through find_package(adjoin)"
if ! { CC=$cc cmake -S "$source/examples" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$prefix" &&
  cmake --build "$work/cmake"; } >"$work/log" 2>&1; then
  cat "$work/log"
  exit 1
fi
run_all "$work/cmake"

# run_ranks PROGRAM: runs the example for MPI, which has known answers.
run_ranks() {
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_hwloc_base_binding_policy=none mpiexec -n 3 "$1" >"$work/ranks.out" || { echo "$1 failed"; exit 1; }
  grep -x '3000 points on 3 ranks have 14736 pairs' "$work/ranks.out"
}
if [ -e "$lib/pkgconfig/adjoin_mpi.pc" ] && command -v mpiexec >/dev/null; then
  step "the example for MPI, through find_package and pkg-config"
  run_ranks "$work/cmake/distributed"
  if command -v pkg-config >/dev/null && command -v mpicc >/dev/null; then
    # shellcheck disable=SC2046
    mpicc -std=c11 "$source/examples/mpi/distributed.c" $(pkg-config --cflags --libs adjoin_mpi) -Wl,-rpath,"$lib" \
      -o "$work/distributed"
    run_ranks "$work/distributed"
  fi
else
  echo "no libadjoin_mpi: its example is left out"
fi

if command -v pkg-config >/dev/null; then
  step "examples through pkg-config, shared"
  mkdir "$work/shared" "$work/static"
  for source_file in "$source"/examples/*.c; do
    # shellcheck disable=SC2046
    "$cc" -std=c11 "$source_file" $(pkg-config --cflags --libs adjoin) -Wl,-rpath,"$lib" \
      -o "$work/shared/$(basename "$source_file" .c)"
  done
  run_all "$work/shared"

  step "examples through pkg-config, static"
  rm -f "$lib"/libadjoin.so*
  for source_file in "$source"/examples/*.c; do
    # shellcheck disable=SC2046
    "$cc" -std=c11 "$source_file" $(pkg-config --static --cflags --libs adjoin) \
      -o "$work/static/$(basename "$source_file" .c)"
  done
  run_all "$work/static"
fi
echo "installation is sound"
