#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs every fuzzer of a build for some seconds, starting from the corpus in tests/fuzz/corpus. A finding does not stop
# it: all fuzzers run until their time is over. New inputs go to found/ in the build folder, and inputs that break
# something to broken/. If there are any of the latter, the run fails in the end.
#   fuzz.sh BUILD_DIR SECONDS [TARGET...]      0 seconds: replay the corpus only; no target: all
set -eu
cd "$(dirname "$0")/.."
build=$(realpath "$1") seconds=$2
shift 2
[ $# -gt 0 ] || set -- '*'
export ADJOIN_COSTS=none

for name in "$@"; do
  find "$build" -type f -perm -u+x -name "fuzz_$name"
done | sort -u >"$build/fuzzers"
[ -s "$build/fuzzers" ] || { echo "fuzz.sh: no such fuzzers in $build" >&2; exit 1; }

# Faults of libhdf5 itself are no findings: leaks, and requests for more memory than there is, which fail.
choose_options() {
  ASAN_OPTIONS='' limits="-rss_limit_mb=4096"
  case $1 in
    *_hdf5) ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 limits="$limits -malloc_limit_mb=100000000" ;;
  esac
  export ASAN_OPTIONS
}

# Replays the corpus. If it fails, replays each file in a process of its own and names those that fail.
# shellcheck disable=SC2086 # $limits are several arguments
replay() {
  "$1" -runs=0 -timeout=60 $limits -artifact_prefix="$3-" "$2" >"$3.log" 2>&1 && return 0
  for file in "$2"/*; do
    "$1" -timeout=60 $limits -artifact_prefix="$3-" "$file" >"$3.one" 2>&1 && continue
    echo "  broken: $file"
    tail -25 "$3.one"
  done
  return 1
}

# fuzz FUZZER CORPUS FOUND LOG. Each job of a fuzzer is a process of its own, so that a crash does not end other jobs.
# The time limit is for endless loops, and is long enough for a busy machine.
fuzz() {
  dict=
  [ ! -e "$2.dict" ] || dict=-dict=$2.dict
  # shellcheck disable=SC2086 # an empty $dict is no argument
  nice "$1" -fork=1 -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1 -close_fd_mask=3 $limits \
    -max_total_time="$seconds" -timeout=90 -artifact_prefix="$build/broken/${1##*/}-" $dict \
    "$3" "$2" >"$4" 2>&1 || true
}

# set_aside FUZZER: inputs whose stack shows a crash inside libhdf5 are not our findings. They are kept and counted.
set_aside() {
  for file in "$build/broken/${1##*/}"-*; do
    # shellcheck disable=SC2086 # $limits are several arguments
    "$1" $limits "$file" 2>&1 | grep -E '^ *#[0-4] ' | grep -q libhdf5 || continue
    mkdir -p "$build/libhdf5"
    mv "$file" "$build/libhdf5"
    echo "  breaks in libhdf5 itself: $build/libhdf5/${file##*/}"
  done
}

rm -rf "$build/broken"
mkdir -p "$build/broken"
failed=
while read -r fuzzer; do
  name=${fuzzer##*/fuzz_}
  corpus=$PWD/tests/fuzz/corpus/$name
  found=$build/found/$name log=$build/fuzz_$name
  mkdir -p "$found"
  passed=yes
  choose_options "$fuzzer"
  replay "$fuzzer" "$corpus" "$log" || passed=no
  executions=$(find "$corpus" -type f | wc -l)
  if [ "$seconds" -gt 0 ]; then
    fuzz "$fuzzer" "$corpus" "$found" "$log.log"
    more=$(sed -n 's/^#\([0-9]*\):.*/\1/p' "$log.log" | tail -1)
    executions=$((executions + ${more:-0}))
    [ "$name" != hdf5 ] || set_aside "$fuzzer"
    [ "${more:-0}" -gt 0 ] || { passed=no; tail -25 "$log.log"; }
  fi
  if [ -n "$(find "$build/broken" -name "fuzz_$name-*" ! -name '*slow-unit*')" ]; then
    passed=no
    grep -E 'SUMMARY|does not hold|ERROR:' "$log.log" | sort | uniq -c | sort -rn | head -10
  fi
  [ $passed = yes ] || failed="$failed $name"
  printf 'fuzz_%-10s %9d executions, corpus of %d%s\n' "$name" "$executions" "$(find "$corpus" -type f | wc -l)" \
    "$([ $passed = yes ] || echo ': BROKEN')"
done <"$build/fuzzers"
if [ -n "$failed" ]; then
  echo "fuzz: broken:$failed; the inputs are in $build/broken"
  exit 1
fi
echo "fuzz: nothing found"
