"""Scenarios of vectors, and of the programs that work on them by transactions: tiermap-kmeans."""
import pathlib

from cases import Case, Scenario, overhead
from measurement import GIB, MIB, option_bytes

KMEANS, DBSCAN, TRANSACTIONS = "tiermap-kmeans", "tiermap-dbscan", "bench-vector_transactions"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Made by scripts/setup_spark.sh.
SPARK_PYTHON = ROOT / "build/spark/bin/python"
SPARK = ROOT / "bench/spark_clustering.py"


def transactions(bench):
    """Runs of their own for each number: the loops of one kind are measured in turn within a run."""
    size = bench.choose(128 << 20, 256 << 20, 256 << 20)
    command = [bench.program(TRANSACTIONS), "--path", bench.scratch / "transactions", "--bytes", size]
    cases = []
    for step in ("scan", "random"):
        for series, system, key in (("transaction", "tiermap", "transaction"), ("std::vector", "memory", "memory")):
            cases.append(Case(series, system, [*command, "--warm"], panel=f"{step}, all in memory",
                              metric="elements_per_second", data_bytes=size, for_peers=False,
                              value=lambda report, name=f"{step}_{key}_elements_per_second": report[name]))
        cases.append(Case(f"{step}, 64 KiB pages", "tiermap", [*command, "--page-size", "64KiB", "--work", 8],
                          panel="pages in time, memory for a quarter", metric="pages_in_time_percent", data_bytes=size,
                          for_peers=False, value=lambda report, name=f"{step}_coverage_percent": report[name]))
    return cases


def kmeans_memory(bench):
    points = bench.scratch / "shared-points"
    size = bench.make(points, KMEANS, "generate", "--file", points, "--bytes", option_bytes(bench.data_bytes), "--json")
    # A point has three coordinates, and a fourth number says which cluster it is in.
    size += size // 3
    cases = []
    for percent in bench.points((25, 100), (12.5, 25, 50, 100), (12.5, 25, 37.5, 50, 75, 100)):
        cases += bench.compare(KMEANS, points, "--threads", bench.cores, "--clusters", 8, "--iterations", 4,
                               "--tolerance", 0, limit=int(size * percent / 100) + overhead(size), data_bytes=size,
                               x=percent, drop=(points,), mmap=bench.mmap_with_hints)
    return cases


def dbscan_memory(bench):
    points = bench.scratch / "shared-few-points"
    size = bench.make(points, KMEANS, "generate", "--file", points, "--bytes", option_bytes(bench.data_bytes // 8),
                      "--json")
    # Of a point: three coordinates; the same and its number in a row; link and label; its share of the tree.
    size = size // 12 * (12 + 16 + 8 + 4)
    cases = []
    for percent in bench.points((40, 100), (20, 40, 100), (20, 40, 60, 80, 100)):
        cases += bench.compare(DBSCAN, points, "--threads", bench.cores, "--neighbours", 100, "--no-verify",
                               limit=int(size * percent / 100) + overhead(size), data_bytes=size, x=percent,
                               drop=(points,), mmap=bench.mmap_with_hints)
    return cases


def kmeans_spark(bench):
    """Spark with as much memory as it likes, Tiermap with a quarter of that; Spark's data in the format it reads best."""
    if not bench.dry and not SPARK_PYTHON.exists():
        bench.skip("Spark", "build/spark is not there: scripts/setup_spark.sh makes it")
        return []
    points = bench.scratch / "shared-points"
    columns = bench.scratch / "shared-points.parquet"
    size = bench.make(points, KMEANS, "generate", "--file", points, "--bytes", option_bytes(bench.data_bytes), "--json")
    bench.make(columns, SPARK_PYTHON, SPARK, "--convert", points, "--data", columns)
    memory = max(4 * size, 2 * GIB)
    wishes = ("--threads", bench.cores, "--clusters", 8, "--iterations", 4)
    budget = memory // 4 - overhead(size)
    about = {"data_bytes": size, "for_peers": False}
    return [Case("tiermap", "tiermap", [bench.program(KMEANS), "--json", "--no-verify", "--tolerance", 0, "--budget",
                                        option_bytes(budget), *wishes, points], limit=memory // 4, drop=(points,), **about),
            Case("Spark MLlib", "spark", [SPARK_PYTHON, SPARK, "--data", columns, "--memory-mebibytes",
                                          memory // MIB * 3 // 4, *wishes], limit=memory, drop=(columns,), **about)]


SCENARIOS = (
    Scenario("vector-transactions", "Transactions: where all is in memory, and where it is not",
             "`bench-vector_transactions`: the sum of all numbers of a vector, and of random ones of a known seed, by a "
             "transaction with 2 MiB pages and by the same loops over a `std::vector`; and how many of the pages that a "
             "transaction needed were there before it came to them, with eight rounds of a hash as the work on each "
             "number, and 64 times as many on a random one.", (TRANSACTIONS,), transactions),
    Scenario("kmeans-memory", "k-means: less memory",
             "`tiermap-kmeans`, 8 clusters, 4 iterations after k-means||'s five rounds, which is eleven passes over the "
             "points. Memory is for a share of points and assignments. Every assignment is checked.", (KMEANS,),
             kmeans_memory, "memory, % of the data"),
    Scenario("dbscan-memory", "DBSCAN: less memory",
             "`tiermap-dbscan`, a reach of 8 and 100 neighbours, from a cold page cache. Memory is for a share of the "
             "points and of what is kept of each: row, link, label and its share of the tree.", (DBSCAN, KMEANS),
             dbscan_memory, "memory, % of the data"),
    Scenario("kmeans-spark", "k-means: Spark MLlib",
             "`tiermap-kmeans` and Spark's `KMeans` in one process of one node: 8 clusters, k-means|| in five rounds, 4 "
             "iterations, from a cold page cache to the last assignment; not counted is Spark's start. Spark may use "
             "four times the memory that Tiermap may, and reads Parquet.", (KMEANS,), kmeans_spark),
)
