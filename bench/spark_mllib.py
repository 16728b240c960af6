#!/usr/bin/env python3
"""k-means or a random forest by Spark MLlib on one node, in one process or by several workers, for `make bench`: prints as JSON how long it took from the first
read of the data to the last row's cluster or class, and what came of it. Run by the Python of build/spark, which
scripts/setup_spark.sh makes.

The data is a Parquet file with a column of floats for each coordinate or feature, and one for the class, which is what
Spark reads best; `--convert` makes it of a file of floats.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

# Of k-means' points, and of the tables that tiermap-random-forest makes.
COLUMNS = {"kmeans": ("x", "y", "z"), "random-forest": ("f0", "f1", "f2", "f3", "f4", "f5", "class")}

# It only plans where there are workers; Spark takes no less than 450.
DRIVER_MEBIBYTES = 512


def convert(source, target, columns):
    """Floats, row after row, as Parquet."""
    import numpy
    import pyarrow
    import pyarrow.parquet
    points = numpy.memmap(source, dtype="f4", mode="r").reshape(-1, len(columns))
    schema = pyarrow.schema([(name, pyarrow.float32()) for name in columns])
    group = 1 << 20
    with pyarrow.parquet.ParquetWriter(target, schema, compression="none") as writer:
        for first in range(0, len(points), group):
            piece = points[first:first + group]
            writer.write_table(pyarrow.table([pyarrow.array(numpy.ascontiguousarray(column)) for column in piece.T],
                                             schema=schema))


def heaps_of(options):
    """How memory is shared between the process that asks and workers, in MiB each."""
    if not options.workers:
        return options.memory_mebibytes, None
    # What Java keeps beside its heap, several processes keep, not one.
    heaps = options.memory_mebibytes * 3 // 4
    return DRIVER_MEBIBYTES, (heaps - DRIVER_MEBIBYTES) // options.workers


def session(options, folder):
    """One process of so much memory, which answers nobody but this one; or workers of one core each, a process each."""
    from pyspark.sql import SparkSession
    driver, worker = heaps_of(options)
    master = f"local-cluster[{options.workers},1,{worker}]" if worker else f"local[{options.threads}]"
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Else they leave their logs where Spark is installed.
    os.environ["SPARK_WORKER_DIR"] = os.path.join(folder, "workers")
    asked = (SparkSession.builder.master(master).appName("mllib")
             .config("spark.driver.memory", f"{driver}m").config("spark.ui.enabled", "false")
             .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
             .config("spark.local.dir", folder).config("spark.log.level", "ERROR"))
    if worker:
        asked = asked.config("spark.executor.memory", f"{worker}m")
    return asked.getOrCreate()


def read(spark, options, features, *others):
    """Features as the vectors that MLlib works on, and what else there is."""
    from pyspark.ml.feature import VectorAssembler
    return VectorAssembler(inputCols=list(features), outputCol="features").transform(
        spark.read.parquet(str(options.data))).select("features", *others)


def cluster(spark, options):
    from pyspark.ml.clustering import KMeans
    from pyspark.sql.functions import count
    started = time.monotonic()
    points = read(spark, options, COLUMNS["kmeans"]).cache()
    model = KMeans(k=options.clusters, initMode="k-means||", initSteps=5, maxIter=options.iterations, tol=0.0,
                   seed=1).fit(points)
    sizes = model.transform(points).groupBy("prediction").agg(count("*")).collect()
    return {"seconds": time.monotonic() - started, "inertia": model.summary.trainingCost,
            "points": sum(row[1] for row in sizes), "verified": len(sizes) <= options.clusters}


def grow(spark, options):
    from pyspark.ml.classification import RandomForestClassifier
    from pyspark.sql.functions import avg, col, count
    started = time.monotonic()
    *features, label = COLUMNS["random-forest"]
    rows = read(spark, options, features, col(label).cast("double").alias("label")).cache()
    train, held_out = rows.randomSplit([0.8, 0.2], seed=1)
    model = RandomForestClassifier(numTrees=options.trees, maxDepth=options.depth, seed=1).fit(train)
    right = (col("prediction") == col("label")).cast("double")
    measured, accuracy = model.transform(held_out).agg(count("*"), avg(right)).first()
    return {"seconds": time.monotonic() - started, "accuracy": accuracy, "measured_rows": measured,
            "splits": model.totalNumNodes, "verified": accuracy >= options.least_accuracy}


JOBS = {"kmeans": cluster, "random-forest": grow}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--data", type=pathlib.Path, required=True, help="the Parquet file")
    parser.add_argument("--convert", type=pathlib.Path, help="file of floats to make it of, and nothing else")
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--least-accuracy", type=float, default=0.0, help="a forest that is right less often is wrong")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--workers", type=int, default=0, help="so many processes of one core each, in place of threads")
    parser.add_argument("--memory-mebibytes", type=int, default=2048, help="what the Java processes may keep")
    options = parser.parse_args()
    if options.convert:
        convert(options.convert, options.data, COLUMNS[options.job])
        return
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir=options.data.parent) as folder:
        spark = session(options, folder)
        try:
            print(json.dumps(JOBS[options.job](spark, options)))
        except Exception as error:  # Of the pages that Java writes one line is kept.
            sys.exit(f"Spark MLlib: {next((line for line in str(error).splitlines() if 'Exception' in line), error)}")
        spark.stop()


if __name__ == "__main__":
    main()
