#!/bin/sh
# SPDX-License-Identifier: MIT
# Times the cases of bench/ and prints the table. Arguments go to bench.py: bench.sh --quick, --case PATTERN.
set -eu
cd "$(dirname "$0")/.."
exec python3 bench/bench.py run "$@"
