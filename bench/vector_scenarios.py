"""Scenarios of vectors, and of the programs that work on them by transactions: tiermap-kmeans."""
from cases import Case, Scenario, overhead
from measurement import option_bytes

KMEANS, TRANSACTIONS = "tiermap-kmeans", "bench-vector_transactions"


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
)
