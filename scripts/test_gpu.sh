#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs everything that needs a GPU and prints one table: a build for this GPU, the selftests, the tests that need a
# device, and small cases under compute-sanitizer. Exit status 1 if a step failed; 0 also if there is no GPU.
#   test_gpu.sh BUILD_DIR [JOBS]
# STEP_SECONDS limits each step. The output of the steps is in BUILD_DIR/test_gpu.
set -u
cd "$(dirname "$0")/.." || exit 1
build=$1 jobs=${2:-2} limit=${STEP_SECONDS:-900}
logs=$build/test_gpu
table=$logs/table

if ! nvidia-smi -L >/dev/null 2>&1 && [ ! -e /dev/nvidiactl ]; then
  echo "test_gpu.sh: no GPU in this machine, nothing to test"
  exit 0
fi
mkdir -p "$logs"
: >"$table"

# record STEP RESULT SECONDS [REASON]
record() {
  printf '%-34s %-8s %5d  %s\n' "$1" "$2" "$3" "${4:-}" | tee -a "$table"
}

# step NAME COMMAND...: runs a command and records the result. Exit status 77 means that the step does not apply here.
step() {
  name=$1 since=$(date +%s)
  shift
  log=$logs/$(printf '%s' "$name" | tr ' /' '__').log
  timeout -k 10 "$limit" "$@" >"$log" 2>&1
  status=$? seconds=$(($(date +%s) - since))
  case $status in
    0) record "$name" passed $seconds ;;
    77) record "$name" skipped $seconds "$(tail -n 1 "$log")" ;;
    124 | 137) record "$name" FAILED $seconds "no end after $limit s, see $log" ;;
    *)
      tail -n 40 "$log"
      record "$name" FAILED $seconds "exit status $status, see $log"
      ;;
  esac
  return $status
}

# skip REASON NAME...
skip() {
  reason=$1
  shift
  for name in "$@"; do
    record "$name" skipped 0 "$reason"
  done
}

finish() {
  printf '\n%-34s %-8s %5s\n' step result s
  cat "$table"
  if grep -q ' FAILED ' "$table"; then
    exit 1
  fi
  exit 0
}

# The programs are those of tests/gpu_*.c, and tests/attack.c on the GPU; tests/test_gpu_*.c need cmocka.
names() {
  for file in "$@"; do
    basename "$file" .c
  done
}
programs="$(names tests/gpu_*.c) gpu_attack"
unit_tests=$(names tests/test_gpu_*.c)

configure() {
  if command -v ninja >/dev/null && [ ! -e "$build/CMakeCache.txt" ]; then
    set -- -G Ninja
  else
    set --
  fi
  cmake -S . -B "$build" "$@" -DADJOIN_CUDA=AUTO
}

# sanitize TOOL NAME PROGRAM ARGUMENT...: runs a program under a tool, with arguments that keep the run small.
sanitize() {
  tool=$1 name=$2
  shift 2
  # Calls that return "not ready" are no errors: stopwatches use such calls to ask.
  step "$tool $name" compute-sanitizer --tool "$tool" --target-processes all --report-api-errors no \
    --error-exitcode 3 "$@"
}

# 1. The build.
configure >"$logs/configure.log" 2>&1 || { cat "$logs/configure.log"; exit 1; }
if ! grep "cuda: yes" "$logs/configure.log"; then
  grep "cuda:" "$logs/configure.log"
  record configure FAILED 0 "the kernels are left out"
  finish
fi
if ! grep -q "cmocka was not found" "$logs/configure.log"; then
  targets="$programs $unit_tests"
else
  targets=$programs
fi
# shellcheck disable=SC2086 # lists of names are meant to split, here and below
step build cmake --build "$build" -j "$jobs" --target installed $targets || finish

# 2. The selftests and the tests.
step "selftest gpu" "$build/adjoin" selftest --backend gpu
step "selftest gpus" "$build/adjoin" selftest --backend gpu --devices 0,0
step "selftest hybrid" "$build/adjoin" selftest --backend hybrid
for program in $targets; do
  step "$program" "$build/tests/$program"
done
# Clusters of every size, and border points between them, with rows in many blocks.
# shellcheck disable=SC2016 # the inner shell expands these
step "dbscan, as on cores" sh -euc '
  "$0" generate unif -n 300k -d 3 -o "$1/points.npy"
  for backend in cpu gpu hybrid; do
    "$0" dbscan -r 0.0185 --min-points 8 "$1/points.npy" --backend $backend --tuning buffer=1000000 -o "$1/$backend.npy"
    cmp "$1/cpu.npy" "$1/$backend.npy"
  done' "$build/adjoin" "$logs"
step "gpu_attack, a minute" "$build/tests/gpu_attack" --seconds 60 --need-device
# shellcheck disable=SC2086
[ "$targets" != "$programs" ] || skip "no cmocka" $unit_tests

# 3. Small cases under compute-sanitizer, which makes kernels 10 to 100 times slower.
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    sanitize "$tool" "selftest gpu" "$build/adjoin" selftest --backend gpu --case "129 points"
    sanitize "$tool" "selftest gpu, Lp" "$build/adjoin" selftest --backend gpu --quick --case "Lp 2.5, two sets"
    sanitize "$tool" "selftest gpus" "$build/adjoin" selftest --backend gpu --devices 0,0 --case "129 points"
    sanitize "$tool" "selftest hybrid" "$build/adjoin" selftest --backend hybrid --case "129 points"
    sanitize "$tool" gpu_select "$build/tests/gpu_select" "rows of 1000" 6
    sanitize "$tool" "gpu_select, many rows" "$build/tests/gpu_select" "many rows, mixed" 6
    sanitize "$tool" gpu_points "$build/tests/gpu_points" "129 points"
    sanitize "$tool" gpu_rows "$build/tests/gpu_rows"
    if [ "$tool" = memcheck ]; then
      sanitize "$tool" gpu_brute "$build/tests/gpu_brute" "17 queries"
    else
      skip "takes minutes; the selftest has its kernels" "$tool gpu_brute"
    fi
    skip "no small case" "$tool gpu_attack" "$tool gpu_derive" "$tool gpu_faults" "$tool gpu_hybrid"
  done
else
  skip "no compute-sanitizer in PATH" memcheck racecheck
fi

finish
