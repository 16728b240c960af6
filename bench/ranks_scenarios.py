"""Scenarios of several ranks that work on the same data: beside plain MPI programs and Spark's workers, and what goes
from rank to rank."""
import pathlib
import sys

from cases import Case, Scenario, have, overhead
from measurement import GIB, MIB, option_bytes
from nodes import reason_without_nodes
from ranks import MPIEXEC
from simulation_scenarios import GRAY_SCOTT
from vector_scenarios import DBSCAN, FOREST, KMEANS, no_spark, parquet_of, small_points, small_table, spark_case

TIERMAP, TRAFFIC = "tiermap", "bench-shared_traffic"
GRAY_SCOTT_MPI, DBSCAN_MPI = "tiermap-gray-scott-mpi", "tiermap-dbscan-mpi"
RUN = pathlib.Path(__file__).resolve().parent / "ranks.py"
NEIGHBOURS = 40
# What the servers, mpiexec and Python have, beside what the ranks have.
BESIDE_RANKS = 160 * MIB


def no_launcher(bench):
    if bench.dry or have(MPIEXEC):
        return False
    bench.skip(MPIEXEC, "it is not installed: package mpich")
    return True


def started(bench, ranks, servers, program, *words, nodes=False):
    """The command that runs a program as so many ranks, with so many servers around it."""
    around = ["--program", bench.program(TIERMAP), "--servers", servers] if servers else []
    return [sys.executable, RUN, "--ranks", ranks, *around, *(["--nodes"] if nodes else []), bench.program(program),
            *words]


def gray_scott(bench, ranks, size, steps, nodes=False):
    """The same steps by both systems; Tiermap has a server for each rank, as if each had a node."""
    cells = ("--size", size, "--steps", steps)
    # Room for all of it, and for the planes that ranks exchange.
    budget = option_bytes(3 * 8 * size ** 3 // ranks // MIB * MIB + 64 * MIB)
    ours = started(bench, ranks, ranks, GRAY_SCOTT, *cells, "--threads", 1, "--budget", budget, "--no-verify", "--json",
                   nodes=nodes)
    return (("tiermap", "tiermap", ours), ("plain MPI", "mpi", started(bench, ranks, 0, GRAY_SCOTT_MPI, *cells)))


def dbscan(bench, ranks, points, size, nodes=False):
    options = (points, "--neighbours", NEIGHBOURS, "--labels", bench.scratch / "labels")
    budget = option_bytes(8 * size // ranks // MIB * MIB + 64 * MIB)
    ours = started(bench, ranks, ranks, DBSCAN, *options, "--threads", 1, "--budget", budget, "--no-verify", "--json",
                   nodes=nodes)
    return (("tiermap", "tiermap", ours), ("plain MPI", "mpi", started(bench, ranks, 0, DBSCAN_MPI, *options)))


def some_points(bench, size):
    points = bench.scratch / f"shared-points-of-ranks-{size}"
    return points, bench.make(points, KMEANS, "generate", "--file", points, "--bytes", option_bytes(size), "--json")


def weak_scaling(bench):
    """As many cells and points for each rank, whatever their number."""
    if no_launcher(bench):
        return []
    cases = []
    # Of two ranks twice the cells of one: 1.26 times the edge.
    edges = bench.choose((96, 121), (192, 242), (256, 322))
    bytes_a_rank = bench.choose(2, 6, 12) * MIB
    for ranks, edge in zip((1, 2), edges):
        points, size = some_points(bench, ranks * bytes_a_rank)
        for panel, data_bytes, systems in (
                ("Gray-Scott", 8 * edge ** 3, gray_scott(bench, ranks, edge, bench.choose(20, 150, 200))),
                ("DBSCAN", size, dbscan(bench, ranks, points, size))):
            cases += [Case(series, system, command, x=ranks, panel=panel, data_bytes=data_bytes, for_peers=False)
                      for series, system, command in systems]
    return cases


def wire(bench):
    """Of Tiermap all that leaves a node; of MPI what it is given to send to other ranks, which is less."""
    if no_launcher(bench):
        return []
    if not bench.dry and reason_without_nodes():
        bench.skip("eight nodes", reason_without_nodes())
        return []
    ranks, edge = 8, bench.choose(64, 128, 128)
    points, size = some_points(bench, bench.choose(2, 12, 24) * MIB)
    panels = (("Gray-Scott", 8 * edge ** 3, gray_scott(bench, ranks, edge, bench.choose(20, 200, 400), nodes=True)),
              ("DBSCAN", size, dbscan(bench, ranks, points, size, nodes=True)))
    return [Case(series, system, command, x=ranks, panel=panel, metric="wire_bytes", data_bytes=data_bytes,
                 for_peers=False, value=(lambda report: report["sent_bytes"]) if system == "mpi" else None)
            for panel, data_bytes, systems in panels for series, system, command in systems]


def phases(bench):
    if no_launcher(bench):
        return []
    size = bench.choose(16, 32, 64) * MIB
    # A quarter of what a rank works on: pages leave memory, and come back.
    common = ("--work", "own", "--bytes", option_bytes(size), "--budget", option_bytes(size // 8))
    return [Case(series, "tiermap", started(bench, 2, 2, TRAFFIC, *common, "--phase", phase),
                 metric="coherence_messages", data_bytes=size, for_peers=False)
            for phase, series in (("local", "local: each reads and writes its own part"),
                                  ("read-only", "read-only: each reads its own part"),
                                  ("shared", "the same as local, in the shared phase"))]


def false_sharing(bench):
    if no_launcher(bench):
        return []
    size = bench.choose(1, 4, 16) * MIB
    return [Case("tiermap", "tiermap", started(
        bench, ranks, 2, TRAFFIC, "--work", "neighbours", "--bytes", option_bytes(size), "--budget",
        option_bytes(8 * size), "--rounds", 16, "--between", between), x=ranks, panel=panel,
                 metric="moved_for_changed", data_bytes=size, for_peers=False)
            for between, panel in (("release", "a release after each round"), ("barrier", "a barrier after each round"))
            for ranks in (2, 4, 8)]


def against_spark_workers(bench, job, program, data, size, spark_wishes, wishes, common):
    """Spark with as much memory as it likes, the ranks with a quarter of that, and the server and all with them."""
    columns = parquet_of(bench, job, data)
    memory = max(8 * size, 4 * GIB)
    budget = (memory // 4 - BESIDE_RANKS) // 2 - overhead(size)
    ours = started(bench, 2, 1, program, "--json", "--no-verify", "--threads", 1, "--budget",
                   option_bytes(budget // MIB * MIB), *common, *wishes, data)
    return [Case("tiermap, 2 ranks", "tiermap", ours, limit=memory // 4, drop=(data,), data_bytes=size,
                 for_peers=False),
            spark_case(bench, "Spark MLlib, 2 workers", job, columns, memory, size, "--workers", 2, *common,
                       *spark_wishes)]


def kmeans_spark(bench):
    if no_spark(bench) or no_launcher(bench):
        return []
    points, size = small_points(bench)
    return against_spark_workers(bench, "kmeans", KMEANS, points, size, (), ("--tolerance", 0),
                                 ("--clusters", 8, "--iterations", 4))


def forest_spark(bench):
    if no_spark(bench) or no_launcher(bench):
        return []
    table, size = small_table(bench)
    return against_spark_workers(bench, "random-forest", FOREST, table, size, ("--least-accuracy", 0.9),
                                 ("--features-tried", 6), ("--trees", 1, "--depth", 10))


_SPARK = ("Spark's workers are a process each, with a core each, and its driver is another one; the ranks have a thread each "
          "and one memory server. From a cold page cache; not counted is the start of either. Spark may use four times the "
          "memory that all of Tiermap's processes together may, and reads Parquet.")
SCENARIOS = (
    Scenario("weak-scaling", "Gray-Scott and DBSCAN, all in memory: ranks beside plain MPI",
             "`tiermap-gray-scott` and `tiermap-dbscan` as ranks of one thread, and `tiermap-gray-scott-mpi` and "
             "`tiermap-dbscan-mpi`, which send by MPI: as many cells and points for each rank. Tiermap has a memory server "
             "for each rank, on the same two cores. Both choose how they send on one machine.",
             (TIERMAP, GRAY_SCOTT, GRAY_SCOTT_MPI, DBSCAN, DBSCAN_MPI, KMEANS), weak_scaling, "ranks"),
    Scenario("ranks-wire", "Gray-Scott and DBSCAN: bytes between eight nodes",
             "The same programs as 8 ranks. Tiermap's are on a node each, with a memory server: network namespaces with "
             "virtual cables, at whose ends the kernel counts the bytes, with all that TCP puts around them, from the start "
             "of the ranks to their end. Of MPI's those bytes count that it is given for other ranks, without what it adds.",
             (TIERMAP, GRAY_SCOTT, GRAY_SCOTT_MPI, DBSCAN, DBSCAN_MPI, KMEANS), wire, "ranks"),
    Scenario("shared-phases", "Shared vectors: coherence messages of their phases",
             "`bench-shared_traffic`: two ranks go through a part each of a vector eight times, with a barrier after each, "
             "with memory for a quarter of it. Counted are the questions what others have changed.", (TIERMAP, TRAFFIC),
             phases),
    Scenario("false-sharing", "Shared vectors: ranks that write neighbouring elements",
             "`bench-shared_traffic`: each of N ranks adds 1 to every Nth element of 8 bytes, in 16 rounds; every element "
             "is checked at the end. Counted is what ranks and servers send each other in the rounds, heads of messages and "
             "the first fetch of each page included, for each byte of an element that changed. After a barrier each rank's "
             "next round finds what all others wrote; after a release it need not.", (TIERMAP, TRAFFIC), false_sharing,
             "ranks"),
    Scenario("kmeans-spark-ranks", "k-means by 2 ranks: Spark MLlib with 2 workers",
             "`tiermap-kmeans` and Spark's `KMeans`: 8 clusters, k-means|| in five rounds, 4 iterations. " + _SPARK,
             (TIERMAP, KMEANS), kmeans_spark),
    Scenario("forest-spark-ranks", "Random forest by 2 ranks: Spark MLlib with 2 workers",
             "`tiermap-random-forest` and Spark's `RandomForestClassifier`: one tree of ten levels, all six features tried "
             "at each split. " + _SPARK, (TIERMAP, FOREST), forest_spark),
)
