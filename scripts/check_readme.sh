#!/bin/sh
# SPDX-License-Identifier: MIT
# The shell examples of a Markdown file must run as printed. Those in blocks opened by ```sh test are run, in
# order, by one shell in an empty folder, with the program just built first on the PATH.
#   check_readme.sh README.md BUILD_DIR
set -eu
readme=$1
build=$(realpath "$2")

if [ ! -e "$readme" ]; then
  echo "$readme is not there: nothing to check"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

awk '/^```sh test$/ { inside = 1; next } /^```/ { inside = 0 } inside { sub(/^\$ /, ""); print }' "$readme" \
  >"$work/examples.sh"
if [ ! -s "$work/examples.sh" ]; then
  echo "$readme holds no block opened by \`\`\`sh test"
  exit 1
fi
mkdir "$work/empty"
cd "$work/empty"
PATH="$build:$PATH" sh -eux "$work/examples.sh"
echo "$readme: all $(wc -l <"$work/examples.sh") lines ran"
