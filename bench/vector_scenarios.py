"""Scenarios of vectors, and of the programs that work on them by transactions: tiermap-kmeans,
tiermap-dbscan and tiermap-random-forest."""
import pathlib

from cases import Case, Scenario, memory_for, overhead
from measurement import GIB, MIB, option_bytes
from simulation_scenarios import GRAY_SCOTT

KMEANS, DBSCAN, FOREST = "tiermap-kmeans", "tiermap-dbscan", "tiermap-random-forest"
TRANSACTIONS = "bench-vector_transactions"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# Made by scripts/setup_spark.sh.
SPARK_PYTHON = ROOT / "build/spark/bin/python"
SPARK = ROOT / "bench/spark_mllib.py"


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
                               "--tolerance", 0, limit=memory_for(size, percent), data_bytes=size,
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
                               limit=memory_for(size, percent), data_bytes=size, x=percent,
                               drop=(points,), mmap=bench.mmap_with_hints)
    return cases


def forest_memory(bench):
    table = bench.scratch / "shared-table"
    size = bench.make(table, FOREST, "generate", "--file", table, "--bytes", option_bytes(bench.data_bytes // 2), "--json")
    # The rows, and a tree's sample of the four fifths that are trained on.
    size += size * 4 // 5
    cases = []
    for percent in bench.points((40, 100), (20, 40, 100), (20, 40, 60, 80, 100)):
        cases += bench.compare(FOREST, table, "--threads", bench.cores, "--trees", 1, "--depth", 10, "--no-verify",
                               limit=memory_for(size, percent), data_bytes=size, x=percent, drop=(table,),
                               mmap=bench.mmap_with_hints)
    return cases


def in_memory(bench):
    """Everything fits: Tiermap beside plain memory."""
    points, table = bench.scratch / "shared-few-points", bench.scratch / "shared-small-table"
    size = bench.make(points, KMEANS, "generate", "--file", points, "--bytes", option_bytes(bench.data_bytes // 8),
                      "--json")
    bench.make(table, FOREST, "generate", "--file", table, "--bytes", option_bytes(bench.data_bytes // 4), "--json")
    work = {"k-means": (KMEANS, points, "--clusters", 8, "--iterations", 4, "--tolerance", 0),
            "DBSCAN": (DBSCAN, points, "--neighbours", 100),
            "random forest": (FOREST, table, "--trees", 1, "--depth", 10),
            "Gray-Scott": (GRAY_SCOTT, "--size", bench.choose(96, 192, 256), "--steps", 64)}
    return [Case(system, system, [bench.program(program), "--system", system, "--budget", "2GiB", "--threads", bench.cores,
                                  "--no-verify", "--json", *options], panel=panel, data_bytes=size, for_peers=False)
            for panel, (program, *options) in work.items() for system in ("tiermap", "memory")]


def parquet_of(bench, job, data):
    """The data in the format that Spark reads best."""
    columns = bench.scratch / f"{data.name}.parquet"
    bench.make(columns, SPARK_PYTHON, SPARK, job, "--convert", data, "--data", columns)
    return columns


def spark_case(bench, series, job, columns, memory, size, *options):
    return Case(series, "spark", [SPARK_PYTHON, SPARK, job, "--data", columns, "--memory-mebibytes",
                                  memory // MIB * 3 // 4, *options], limit=memory, drop=(columns,), data_bytes=size,
                for_peers=False)


def against_spark(bench, job, program, data, size, spark_wishes, wishes, common):
    """Spark with as much memory as it likes, Tiermap with a quarter of that."""
    columns = parquet_of(bench, job, data)
    memory = max(4 * size, 2 * GIB)
    budget = memory // 4 - overhead(size)
    common = ("--threads", bench.cores, *common)
    return [Case("tiermap", "tiermap", [bench.program(program), "--json", "--no-verify", "--budget", option_bytes(budget),
                                        *common, *wishes, data], limit=memory // 4, drop=(data,), data_bytes=size,
                 for_peers=False),
            spark_case(bench, "Spark MLlib", job, columns, memory, size, *common, *spark_wishes)]


def no_spark(bench):
    if bench.dry or SPARK_PYTHON.exists():
        return False
    bench.skip("Spark", "build/spark is not there: scripts/setup_spark.sh makes it")
    return True


def small_points(bench):
    """Where points for k-means by Spark are, and their bytes: with four times as many Spark ends for want of memory."""
    return small_data(bench, KMEANS, bench.scratch / "shared-small-points")


def small_table(bench):
    """The same of a table for a forest: in the middle of the levels of detail 128 MiB, as in the paper."""
    return small_data(bench, FOREST, bench.scratch / "shared-small-table")


def small_data(bench, program, path):
    return path, bench.make(path, program, "generate", "--file", path, "--bytes", option_bytes(bench.data_bytes // 4),
                            "--json")


def kmeans_spark(bench):
    if no_spark(bench):
        return []
    points, size = small_points(bench)
    return against_spark(bench, "kmeans", KMEANS, points, size, (), ("--tolerance", 0),
                         ("--clusters", 8, "--iterations", 4))


def forest_spark(bench):
    if no_spark(bench):
        return []
    table, size = small_table(bench)
    # A forest of one tree tries all features, says MLlib.
    return against_spark(bench, "random-forest", FOREST, table, size, ("--least-accuracy", 0.9), ("--features-tried", 6),
                         ("--trees", 1, "--depth", 10))


SCENARIOS = (
    Scenario("vector-transactions", "Transactions: where all is in memory, and where it is not",
             "`bench-vector_transactions`: the sum of all numbers of a vector, and of random ones of a known seed, by a "
             "transaction with 2 MiB pages and by the same loops over a `std::vector`, which has pages of 4 KiB on machines "
             "that give huge ones to who asks for them only; and how many of the pages that a "
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
    Scenario("applications-in-memory", "k-means, DBSCAN, random forest and Gray-Scott: all in memory",
             "The four programs where everything fits, from a cold page cache, beside the same programs in plain memory. "
             "Of those k-means and the random forest have read their file before the time begins. 4 iterations of "
             "k-means, a reach of 8 and 100 neighbours for DBSCAN, one tree of ten levels, 64 steps of Gray-Scott.",
             (KMEANS, DBSCAN, FOREST, GRAY_SCOTT), in_memory),
    Scenario("kmeans-spark", "k-means: Spark MLlib",
             "`tiermap-kmeans` and Spark's `KMeans` in one process of one node: 8 clusters, k-means|| in five rounds, 4 "
             "iterations, from a cold page cache to the last assignment; not counted is Spark's start. Spark may use "
             "four times the memory that Tiermap may, and reads Parquet.", (KMEANS,), kmeans_spark),
    Scenario("forest-memory", "Random forest: less memory",
             "`tiermap-random-forest`, one tree of ten levels, trained on four fifths of the rows and measured by the "
             "others, from a cold page cache. Memory is for a share of the table and of the tree's sample.", (FOREST,),
             forest_memory, "memory, % of the data"),
    Scenario("forest-spark", "Random forest: Spark MLlib",
             "`tiermap-random-forest` and Spark's `RandomForestClassifier` in one process of one node: one tree of ten "
             "levels, all six features tried at each split, from a cold page cache to the last row that is held out; not "
             "counted is Spark's start. Spark tries 31 thresholds of a feature, Tiermap 255 and, of 8192 rows or fewer, "
             "all. Spark may use four times the memory that Tiermap may, and reads Parquet.", (FOREST,), forest_spark),
)
