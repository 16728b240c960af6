#!/usr/bin/env python3
"""k-means by Spark MLlib on one node, for `make bench`: prints as JSON how long it took from the first read of the points
to the last assignment, and what came of it. Run by the Python of build/spark, which scripts/setup_spark.sh makes.

The points are a Parquet file with a column a coordinate, which is what Spark reads best; `--convert` makes it of a file
of floats.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

COORDINATES = ("x", "y", "z")


def convert(source, target):
    """Floats, three a point, as Parquet."""
    import numpy
    import pyarrow
    import pyarrow.parquet
    points = numpy.memmap(source, dtype="f4", mode="r").reshape(-1, len(COORDINATES))
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in COORDINATES])
    group = 1 << 20
    with pyarrow.parquet.ParquetWriter(target, schema, compression="none") as writer:
        for first in range(0, len(points), group):
            piece = points[first:first + group]
            writer.write_table(pyarrow.table([pyarrow.array(numpy.ascontiguousarray(column)) for column in piece.T],
                                             schema=schema))


def session(options, folder):
    """One process of so much memory, which answers nobody but this one."""
    from pyspark.sql import SparkSession
    return (SparkSession.builder.master(f"local[{options.threads}]").appName("clustering")
            .config("spark.driver.memory", f"{options.memory_mebibytes}m").config("spark.ui.enabled", "false")
            .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
            .config("spark.local.dir", folder).config("spark.log.level", "ERROR").getOrCreate())


def cluster(options, folder):
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.feature import VectorAssembler
    from pyspark.sql.functions import count
    spark = session(options, folder)
    started = time.monotonic()
    points = VectorAssembler(inputCols=COORDINATES, outputCol="features").transform(
        spark.read.parquet(str(options.data))).select("features").cache()
    model = KMeans(k=options.clusters, initMode="k-means||", initSteps=5, maxIter=options.iterations, tol=0.0,
                   seed=1).fit(points)
    sizes = model.transform(points).groupBy("prediction").agg(count("*")).collect()
    seconds = time.monotonic() - started
    report = {"seconds": seconds, "inertia": model.summary.trainingCost, "points": sum(row[1] for row in sizes),
              "verified": len(sizes) <= options.clusters}
    spark.stop()
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the Parquet file")
    parser.add_argument("--convert", type=pathlib.Path, help="file of floats to make it of, and nothing else")
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--memory-mebibytes", type=int, default=2048, help="what the Java process may keep")
    options = parser.parse_args()
    if options.convert:
        convert(options.convert, options.data)
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir=options.data.parent) as folder:
        print(json.dumps(cluster(options, folder)))


if __name__ == "__main__":
    main()
