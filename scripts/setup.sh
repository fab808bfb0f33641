#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs only what is missing. If nothing is missing, it does not use the network.
#   setup.sh build      what building and running need
#   setup.sh test       also what tests need
#   setup.sh develop    also what lint, coverage, clang and fuzzing need
# Without the right to install, it prints the command, and fails only if essentials are missing.
set -eu
level=${1:-build}

packages="gcc libc6-dev make cmake ninja-build pkg-config zlib1g-dev libhdf5-dev"
case $level in
  build) ;;
  test | develop) packages="$packages g++ libcmocka-dev libopenmpi-dev openmpi-bin python3 python3-numpy python3-scipy" ;;
  *) echo "setup.sh: \"$level\" is none of build, test, develop" >&2; exit 2 ;;
esac
if [ "$level" = develop ]; then
  packages="$packages clang clang-format clang-tidy gcovr shellcheck gcc-aarch64-linux-gnu libc6-dev-arm64-cross"
fi

# If anything else is missing, only a feature is lost.
require_essentials() {
  for tool in cc cmake make; do
    command -v "$tool" >/dev/null || { echo "setup.sh: $tool is needed and not there" >&2; exit 1; }
  done
}

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup.sh: not a Debian-like system; these Debian packages, by whatever name, are used: $packages"
  require_essentials
  exit 0
fi

missing=
for package in $packages; do
  # A tool from another source will do as well.
  case $package in
    gcc | make | cmake) command -v "$package" >/dev/null && continue ;;
    ninja-build) command -v ninja >/dev/null && continue ;;
  esac
  case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
    "install ok installed") ;;
    *) missing="$missing $package" ;;
  esac
done
[ -n "$missing" ] || exit 0

# apt-get needs tools in sbin, which a short PATH may not have.
export PATH="$PATH:/usr/sbin:/sbin" DEBIAN_FRONTEND=noninteractive
if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
  as_root="sudo -n"
else
  as_root=cannot
fi

if [ "$as_root" != cannot ]; then
  echo "setup.sh: installing$missing"
  # shellcheck disable=SC2086 # lists of words are meant to split
  if $as_root apt-get update -qq && $as_root apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
    exit 0
  fi
  echo "setup.sh: the installation failed"
fi
echo "setup.sh: not installed:$missing"
echo "setup.sh: to install: sudo apt-get install -y --no-install-recommends$missing"
require_essentials
