#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks that the examples of a Markdown file run as printed, in an empty folder and with the current build. The first
# line of a block says how it is run:
#   ```sh test        all of these run in order, in one shell, with the program first on the PATH
#   ```c test         all of these form one program, in order, which is compiled without a warning, linked and run
#   ```python test    all of these run after the others, with Python 3.10 or later, NumPy and SciPy. Without these they
#                     are left out, with a message; with ADJOIN_NEEDS_PYTHON=1, as in `make test`, that is a failure
#
#   check_readme.sh README.md BUILD_DIR
set -eu
readme=$(realpath "$1")
build=$(realpath "$2")
source=$(realpath "$(dirname "$0")/..")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/empty"
cd "$work/empty"

# blocks LANGUAGE FILE: prints the lines of these blocks; fails if there are none.
blocks() {
  awk -v opens="\`\`\`$1 test" '$0 == opens { inside = 1; next } /^```/ { inside = 0 } inside { sub(/^\$ /, ""); print }' \
    "$readme" >"$2"
  [ -s "$2" ]
}

checked=0
if blocks sh "$work/examples.sh"; then
  PATH="$build:$PATH" sh -eux "$work/examples.sh"
  checked=$((checked + $(wc -l <"$work/examples.sh")))
fi

if blocks c "$work/example.c"; then
  cc=${CC:-cc}
  "$cc" -std=c11 -Wall -Wextra -Werror -I"$source/include" -I"$build/include" -c "$work/example.c" -o "$work/example.o"
  if [ -e "$build/src/libadjoin.so" ]; then
    "$cc" "$work/example.o" -L"$build/src" -ladjoin -Wl,-rpath,"$build/src" -o "$work/example"
    "$work/example"
  fi
  checked=$((checked + $(wc -l <"$work/example.c")))
fi

if blocks python "$work/example.py"; then
  export ADJOIN_LIBRARY="$build/src/libadjoin.so" PYTHONPATH="$source/python" PYTHONDONTWRITEBYTECODE=1
  usable=
  for python in python3 /usr/bin/python3; do
    "$python" -c 'import sys, numpy, scipy.sparse; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || continue
    usable=$python
    break
  done
  if [ -n "$usable" ] && [ -e "$ADJOIN_LIBRARY" ]; then
    "$usable" "$work/example.py"
    checked=$((checked + $(wc -l <"$work/example.py")))
  else
    [ -n "$usable" ] && why="there is no $ADJOIN_LIBRARY" || why="no Python from 3.10 on has NumPy and SciPy"
    echo "$readme: its Python examples were NOT run: $why"
    [ "${ADJOIN_NEEDS_PYTHON:-0}" = 0 ] || exit 1
  fi
fi

[ "$checked" -gt 0 ] || { echo "$readme holds no block to check"; exit 1; }
echo "$readme: all $checked lines ran"
