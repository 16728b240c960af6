#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into fresh environments, and runs python/tests there: once with the
# newest numpy and the libraries that some tests use, and once, in short, with numpy 1.26. Exit status 77: skipped, because
# packages cannot be fetched; the last line says so. The reports are build/python/report.xml and report-numpy-1.26.xml.
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
readonly python=${PYTHON:-python3}
readonly work=$PWD/build/python
readonly fetched="$work/fetched.log"
mkdir -p "$work"
rm -rf "$work"/environment* "$work"/wheels "$work"/report*.xml

# install ENVIRONMENT PACKAGE...: only binary packages, nothing is compiled here but Tiermap itself.
install() {
  local environment=$1
  shift
  "$environment/bin/pip" install -q --prefer-binary "$@" >>"$fetched" 2>&1
}

skip() {
  echo "skipped: $1: $(tail -1 "$fetched")"
  exit 77
}

: >"$fetched"
"$python" -m venv "$work/environment" || { echo "skipped: $python makes no environments (package python3-venv)"; exit 77; }
install "$work/environment" scikit-build-core nanobind ninja numpy pytest pytest-xdist ||
  skip "pip cannot fetch what the wheel is built with"
# In its wheel is what parquet: stores are built on.
install "$work/environment" 'pyarrow==26.0.1' || echo "skipped: pip cannot fetch pyarrow"

# Each for itself: tests of a library that cannot be had are skipped by its name. Fetched while the wheel is compiled.
fetch_libraries() {
  local library
  for library in 'dask[array]' joblib scikit-learn pandas h5py ctransformers ray; do
    install "$work/environment" "$library" || echo "skipped: pip cannot fetch $library"
  done
  "$python" -m venv "$work/environment-numpy-1"
  install "$work/environment-numpy-1" 'numpy==1.26.*' pytest pytest-xdist || echo "skipped: pip cannot fetch numpy 1.26"
}
fetch_libraries &
readonly fetching=$!
trap 'kill "$fetching" 2>/dev/null || true' EXIT

export CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-$(nproc)}
"$work/environment/bin/pip" wheel -q --no-build-isolation --no-deps -w "$work/wheels" . >"$work/wheel.log" 2>&1 ||
  { cat "$work/wheel.log" >&2; exit 1; }
wheel=$(ls "$work"/wheels/tiermap-*.whl)
# The program that writes the heaps which the tests read. It is of the wheel's build, in the folder of the wheel's tag.
tag=$(basename "$wheel" .whl)
tag=${tag#tiermap-*-}
cmake --build "$work/$tag" --target tiermap_heap_writer >"$work/heap-writer.log" 2>&1 ||
  { cat "$work/heap-writer.log" >&2; exit 1; }
export TIERMAP_HEAP_WRITER=$work/$tag/bin/tiermap_heap_writer
# The server that some tests start.
export TIERMAP_PROGRAM=$PWD/build/release/bin/tiermap
# A source archive lacks the library's tests and the applications: what is built from it must not want them.
rm -rf "$work/archive"
mkdir -p "$work/archive/tiermap"
"$work/environment/bin/python" -c 'import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])' \
  "$work/archive" >"$work/archive.log" 2>&1 || { cat "$work/archive.log" >&2; exit 1; }
tar -xzf "$work"/archive/tiermap-*.tar.gz -C "$work/archive/tiermap" --strip-components=1
mapfile -t definitions < <(sed -nE 's/^(TIERMAP_[A-Z_]+|BUILD_SHARED_LIBS) = "([A-Z]+)"$/-D\1=\2/p' pyproject.toml)
cmake -S "$work/archive/tiermap" -B "$work/archive/build" -G Ninja "${definitions[@]}" \
  -DPython_EXECUTABLE="$work/environment/bin/python" >"$work/archive.log" 2>&1 || { cat "$work/archive.log" >&2; exit 1; }
wait "$fetching"
install "$work/environment" --no-deps "$wheel" || { cat "$fetched" >&2; exit 1; }
old=false
"$work/environment-numpy-1/bin/python" -c 'import numpy, pytest, xdist' 2>/dev/null &&
  install "$work/environment-numpy-1" --no-deps "$wheel" && old=true

# Outside the tree, so that what is imported is what was installed.
cd "$work"
status=0
# run_pytest ENVIRONMENT REPORT ARGUMENT...: a file's tests by one process, as they share what they make. Once more, alone, what
# failed, if scripts/report_tests.py, which names it at the end, says so.
run_pytest() {
  local environment=$1 report=$2
  shift 2
  "$environment/bin/python" -m pytest -q -n 2 --dist loadfile --junit-xml "$report.xml" "$@" && return
  "$python" ../../scripts/report_tests.py --may-try-again "$report.xml" || return 1
  echo "once more, alone, what has failed"
  "$environment/bin/python" -m pytest -q --last-failed --junit-xml "$report-again.xml" "$@"
}
run_pytest "$work/environment" "$work/report" "$@" ../../python/tests || status=$?
if $old; then
  run_pytest "$work/environment-numpy-1" "$work/report-numpy-1.26" ../../python/tests/test_{map,memmap,gather,heap}.py || status=$?
fi
exit "$status"
