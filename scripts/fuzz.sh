#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every fuzzer of a build for some seconds, starting from the corpus in tests/fuzz/corpus. New inputs stay
# in the build folder; an input that breaks something is left there too, named crash-..., and fails the run.
#   fuzz.sh BUILD_DIR SECONDS      0 seconds: replay the corpus only
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "$1") seconds=$2

find "$build" -type f -perm -u+x -name 'fuzz_*' >"$build/fuzzers"
[ -s "$build/fuzzers" ] || { echo "fuzz.sh: no fuzzers in $build" >&2; exit 1; }
while read -r fuzzer; do
  name=$(basename "$fuzzer")
  corpus=tests/fuzz/corpus/${name#fuzz_}
  found=$build/found/${name#fuzz_}
  mkdir -p "$found"
  echo "$name: corpus of $(find "$corpus" -type f | wc -l)"
  if [ "$seconds" = 0 ]; then
    set -- -runs=0
  else
    set -- -max_total_time="$seconds"
  fi
  "$fuzzer" "$@" -rss_limit_mb=4096 -timeout=20 -artifact_prefix="$build/crash-" -print_final_stats=1 \
    "$found" "$corpus" >"$build/$name.log" 2>&1 || { tail -40 "$build/$name.log"; exit 1; }
  grep -E 'number_of_executed_units' "$build/$name.log"
done <"$build/fuzzers"
echo "fuzz: nothing found"
