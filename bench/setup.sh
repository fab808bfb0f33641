#!/bin/sh
# SPDX-License-Identifier: MIT
# Installs the peers of the benchmark: the Python ones into bench/.venv, nanoflann from the system's packages when
# this user may install them. Nothing here is needed to build or use adjoin.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

if [ ! -e /usr/include/nanoflann.hpp ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get install -y --no-install-recommends g++ libnanoflann-dev
  else
    echo "for the peer nanoflann: apt-get install g++ libnanoflann-dev" >&2
  fi
fi

# Debian's own Python where there is one: it can always make a virtual environment once python3-venv is there.
python=${PYTHON:-/usr/bin/python3}
[ -x "$python" ] || python=python3
[ -x "$here/.venv/bin/python" ] || "$python" -m venv "$here/.venv"
"$here/.venv/bin/python" -m pip install --quiet numpy scipy scikit-learn faiss-cpu pykdtree matplotlib
"$here/.venv/bin/python" -m pip list --format=freeze | grep -i -E '^(numpy|scipy|scikit-learn|faiss-cpu|pykdtree)=='
echo "now build (make), then: python3 $here/bench.py run"
