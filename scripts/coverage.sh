#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds with coverage, runs the tests and prints how many lines of src/ they reach. Fails below 90 %. Error paths count
# too: tests reach them by failing allocations and malformed files.
#   coverage.sh BUILD_DIR [JOBS [LABELS]]
set -eu
build=$1 jobs=${2:-2} labels=${3:-.}
cd "$(dirname "$0")/.."

generator=
if [ ! -e "$build/CMakeCache.txt" ] && command -v ninja >/dev/null; then generator="-G Ninja"; fi
# shellcheck disable=SC2086 # the generator is two words or none
cmake --preset coverage -B "$build" $generator
cmake --build "$build" -j "$jobs"
find "$build" -name '*.gcda' -exec rm -f {} +
(cd "$build" && ctest -j "$jobs" --output-on-failure --no-tests=error -L "$labels")
gcovr --root . --filter 'src/' --object-directory "$build" --exclude-unreachable-branches -j "$jobs" \
  --fail-under-line 90 --txt "$build/coverage.txt" --html-details "$build/coverage.html" || status=$?
cat "$build/coverage.txt"
exit "${status:-0}"
