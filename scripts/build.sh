#!/usr/bin/env bash
# Configures and builds one preset: scripts/build.sh PRESET [TARGET...].
set -euo pipefail
cd "$(dirname "$0")/.."
# ccache, where it is used, then finds what another clone has compiled.
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
preset=$1
shift
log=build/$preset-configure.log
mkdir -p build
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
# One at a time in a folder.
exec {folder}>"build/$preset.lock"
flock "$folder"
targets=()
[[ $# -eq 0 ]] || targets=(--target "$@")
cmake --build --preset "$preset" -j "${JOBS:-$(nproc)}" "${targets[@]}"
