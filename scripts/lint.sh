#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks what a reviewer should not have to check: the module graph, formatting (.clang-format), static analysis
# (.clang-tidy), and the shell scripts. Prints what is wrong and fails. Changes nothing.
set -eu
cd "$(dirname "$0")/.."
jobs=$(nproc 2>/dev/null || echo 2)
mkdir -p build/lint

scripts/check_modules.py || { echo "modules: the above must go: scripts/check_modules.py says what a module is"; exit 1; }

find include src cli tests bench examples -name .venv -prune -o -name '*.[ch]' -print -o -name '*.cu' -print -o -name '*.cuh' -print |
  sort >build/lint/formatted
echo "clang-format: $(wc -l <build/lint/formatted) files"
xargs clang-format --dry-run -Werror <build/lint/formatted

# Analyses every file that is compiled, with its own flags.
cmake -S . -B build/lint -DCMAKE_C_COMPILER=clang -DADJOIN_FEW_INSTANCES=ON -DADJOIN_CUDA=OFF >build/lint/log || { cat build/lint/log; exit 1; }
# The kernels of one instruction set stand for those of the others, which have the same bodies. Headers of the
# benchmark's peers are not ours.
sed -n 's/^ *"file": "\(.*\)",\{0,1\}$/\1/p' build/lint/compile_commands.json | sort -u |
  grep -v -e 'distance/kernels_\(avx2\|scalar\)\.c$' -e 'bench/.*nanoflann\.cpp$' >build/lint/analysed
echo "clang-tidy: $(wc -l <build/lint/analysed) files"
xargs -P "$jobs" -n 1 clang-tidy --quiet -p build/lint <build/lint/analysed >build/lint/findings 2>build/lint/log || {
  cat build/lint/findings
  grep 'error' build/lint/log || true
  exit 1
}

grep -lE '^#!/(usr/)?bin/(env )?(ba)?sh' -r scripts tests bench .ci --exclude-dir=.venv | sort >build/lint/scripts
if command -v shellcheck >/dev/null; then
  echo "shellcheck: $(wc -l <build/lint/scripts) scripts"
  xargs shellcheck <build/lint/scripts
else
  echo "shellcheck: not installed, $(wc -l <build/lint/scripts) scripts not looked at"
fi
echo "lint: clean"
