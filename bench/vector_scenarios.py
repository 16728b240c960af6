"""Scenarios of the programs that work on vectors by transactions: tiermap-kmeans."""
from cases import Scenario, overhead
from measurement import option_bytes

KMEANS = "tiermap-kmeans"


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
    Scenario("kmeans-memory", "k-means: less memory",
             "`tiermap-kmeans`, 8 clusters, 4 iterations after k-means||'s five rounds, which is eleven passes over the "
             "points. Memory is for a share of points and assignments. Every assignment is checked.", (KMEANS,),
             kmeans_memory, "memory, % of the data"),
)
