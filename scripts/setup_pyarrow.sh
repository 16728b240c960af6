#!/usr/bin/env bash
# Makes build/pyarrow, an environment with pyarrow, in whose wheel is Arrow's C++ library with its headers: what
# libtiermap_parquet is built on, and what its tests compare with. 50 MB to fetch. Where it cannot be had there are no
# parquet: stores, and their tests are skipped by name: this always ends well, and says why.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=26.0.1
readonly python=${PYTHON:-python3}
readonly environment=$PWD/build/pyarrow
readonly log=$PWD/build/pyarrow.log

if compgen -G "$environment/lib/python3*/site-packages/pyarrow-$version.dist-info" >/dev/null; then
  exit 0
fi
mkdir -p build
echo "Fetching pyarrow $version into build/pyarrow"
if ! { "$python" -m venv "$environment" &&
  "$environment/bin/pip" install -q --only-binary :all: "pyarrow==$version" numpy; } >"$log" 2>&1; then
  rm -rf "$environment"
  echo "setup_pyarrow.sh: $(tail -1 "$log"): no parquet: stores"
fi
