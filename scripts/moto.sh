#!/usr/bin/env bash
# The S3 server that tests run against: moto, from PyPI, in an environment of its own. Makes build/moto once, and touches the
# network only then. Exit status 77: it cannot be fetched; the tests that need it are skipped by name.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly version=5.2.5
readonly environment=$PWD/build/moto
readonly python=${PYTHON:-python3}
[[ -x $environment/bin/moto_server && -f $environment/version-$version ]] && exit 0
rm -rf "$environment"
mkdir -p build
if ! "$python" -m venv "$environment" >build/moto.log 2>&1 ||
  ! "$environment/bin/pip" install -q --disable-pip-version-check "moto[server]==$version" >>build/moto.log 2>&1; then
  rm -rf "$environment"
  echo "skipped: pip cannot fetch moto[server] $version: $(tail -1 build/moto.log)"
  exit 77
fi
touch "$environment/version-$version"
