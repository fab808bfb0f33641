#!/bin/sh
# SPDX-License-Identifier: MIT
# A first look: a million points in clusters of very different density, joined with themselves.
#   demo.sh PROGRAM
set -eu
adjoin=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# show COMMAND...: prints a command as one would type it, then runs it.
show() {
  printf '\n$ adjoin %s\n' "$*"
  "$adjoin" "$@"
}

show generate clusters -n 1M -d 3 -o points.npy
show range -r 0.00005 points.npy --explain -o neighbours.npz
show range -r 0.00005 points.npy --distance -o - | head -n 8
