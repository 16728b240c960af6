#!/usr/bin/env bash
# Makes build/spark, an environment with pyspark, for the scenarios that compare with Spark's MLlib: 500 MB to fetch, some
# minutes. Where it cannot be had the scenarios are skipped by name: this always ends well, and says why.
set -euo pipefail
cd "$(dirname "$0")/.."
readonly python=${PYTHON:-python3}
readonly environment=$PWD/build/spark
readonly log=$PWD/build/spark.log

if "$environment/bin/python" -c 'import pyspark, pyarrow, numpy' 2>/dev/null; then
  exit 0
fi
scripts/setup.sh spark || { echo "setup_spark.sh: Java cannot be had: Spark is not compared with"; exit 0; }
mkdir -p build
echo "Fetching Spark into build/spark, which takes some minutes"
# setuptools, since pyspark comes as a source archive.
if ! { "$python" -m venv "$environment" && "$environment/bin/pip" install -q setuptools wheel &&
  "$environment/bin/pip" install -q --no-build-isolation 'pyspark==4.*' pyarrow numpy; } >"$log" 2>&1; then
  rm -rf "$environment"
  echo "setup_spark.sh: $(tail -1 "$log"): Spark is not compared with"
fi
