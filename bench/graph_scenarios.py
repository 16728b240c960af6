"""Scenarios of tiermap-bfs (level by level, and with visitor queues) and tiermap-ingest."""
import dataclasses

from cases import MMAP_RANDOM_FIRST, MMAP_WAYS, Scenario, overhead, pages
from measurement import MIB, option_bytes

KIB = 1 << 10
BFS, INGEST = "tiermap-bfs", "tiermap-ingest"
# The options of the traversal with visitor queues: with the graph alone on the store, and with queues and state there
# too.
SEMI_EXTERNAL = ("--traversal", "visitor-queue")
FULLY_EXTERNAL = (*SEMI_EXTERNAL, "--state", "mapped")
# What a search keeps for each vertex, on the heap, whoever pages the graph: its parent, two bits, and what checking
# adds.
VERTEX_BYTES = 16
# What each thread of a search level by level finds before it is put together.
THREAD_BYTES = MIB // 4
# What a traversal with visitor queues keeps for each of many threads: visitors on their way from one to another.
VISITOR_BYTES = MIB
# What checking alone adds.
CHECK_BYTES = 9
# What tiermap-ingest keeps for each vertex while it counts edges, before it maps anything.
EDGE_COUNT_BYTES = 8
# Lists of 16 edges a vertex, as tiermap-ingest lays them out.
LIST_BYTES = 140
SELF_SERVING = ("--fault-mode", "self-serving")
TURNING = ("--scan", "alternate")
# What Tiermap's way is given, the best of mmap's gets too.
MMAP_TURNING = (("mmap sequential, hints, turning", ("--madvise", "sequential", "--prefetch", "on", *TURNING)),)


def graph_file(bench, scale):
    graph = bench.scratch / f"shared-graph-{scale}"
    size = bench.make(graph, BFS, "--scale", scale, "--edge-factor", 32, "--graph", graph, "--build-only", "--budget",
                      "1GiB", "--json")
    return graph, size


def _scale(bench):
    return bench.points(20, 21, 22)


def search(bench, graph, size, scale, *options, limit, threads=None, **more):
    """Cases of one point: `limit` bytes for pages of the graph, and what the search keeps for each vertex beside."""
    return bench.compare(BFS, "--graph", graph, "--threads", threads or bench.cores, "--roots", bench.choose(1, 4, 4),
                         *options, limit=limit // MIB * MIB, data_bytes=size,
                         beside=(VERTEX_BYTES << scale) + (threads or bench.cores) * THREAD_BYTES,
                         drop=(graph,), **{"mmap": (*bench.mmap_with_hints, *MMAP_TURNING), **more})


def page_sizes(bench):
    scale = _scale(bench)
    graph, size = graph_file(bench, scale)
    every = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 512 * KIB, MIB, 2 * MIB, 4 * MIB)
    sizes = bench.points((256 * KIB, MIB), (64 * KIB, 256 * KIB, MIB, 2 * MIB), every)
    cases = []
    for panel, limit in (("ratio 4", size // 4), ("ratio 2", size // 2))[:bench.choose(1, 2, 2)]:
        for page in sizes:
            ways = (("tiermap", ("--page-size", option_bytes(page))),
                    ("tiermap self-serving, turning", ("--page-size", option_bytes(page), *SELF_SERVING,
                                                       *TURNING)))
            cases += search(bench, graph, size, scale, limit=limit, panel=panel, x=page, tiermap=ways, mmap=())
        cases += search(bench, graph, size, scale, limit=limit, panel=panel, tiermap=())
    # Room for the copy that plain memory is, and a search before the timed ones, so that all find it warm.
    ways = tuple((f"tiermap, {page} pages", ("--page-size", page)) for page in ("64KiB", "2MiB"))
    return cases + search(bench, graph, size, scale, "--warm", limit=2 * size + 512 * MIB, panel="all fits",
                           tiermap=ways, mmap=MMAP_WAYS[1:2], memory=True)


OUR_WAY = (("tiermap self-serving, 1MiB pages, turning",
            ("--page-size", "1MiB", *SELF_SERVING, *TURNING)),)


def threads(bench):
    scale = _scale(bench)
    graph, size = graph_file(bench, scale)
    cases = []
    for count in bench.threads:
        cases += search(bench, graph, size, scale, limit=size // 4, threads=count, x=count, tiermap=OUR_WAY)
    return cases


def memory_shares(bench):
    scale = _scale(bench)
    graph, size = graph_file(bench, scale)
    cases = []
    for percent in bench.points((25, 50), (12.5, 25, 50, 100), (12.5, 25, 40, 50, 60, 80, 100)):
        limit = int(size * percent / 100) + overhead(size)
        cases += search(bench, graph, size, scale, limit=limit, x=percent, tiermap=OUR_WAY)
    return cases


def scales(bench):
    cases = []
    for scale in bench.choose((19, 20), (19, 20, 21), (20, 21, 22, 23)):
        graph, size = graph_file(bench, scale)
        cases += search(bench, graph, size, scale, limit=size // 2, x=scale, tiermap=OUR_WAY)
    return cases


def _asynchronous(bench, options, sweeps_memory):
    """The traversal with visitor queues over threads, or over shares of memory."""
    scale = _scale(bench)
    graph, size = graph_file(bench, scale)
    points = [(count, count, size // 4) for count in bench.threads]
    if sweeps_memory:
        shares = bench.points((12.5, 25), (6.25, 12.5, 25), (6.25, 9.4, 12.5, 18.75, 25, 50))
        points = [(percent, 64, int(size * percent / 100) + overhead(size)) for percent in shares]
    kept = CHECK_BYTES if options == FULLY_EXTERNAL else VERTEX_BYTES
    cases = []
    for x, count, limit in points:
        def compare(way, **more):
            return bench.compare(BFS, "--graph", graph, "--threads", count, "--roots", bench.choose(1, 2, 4), *options,
                                 limit=limit // MIB * MIB, data_bytes=size, drop=(graph,), x=x,
                                 beside=(kept << scale) + count * VISITOR_BYTES, metric="teps",
                                 tiermap=((way, SELF_SERVING),), **{"mmap": MMAP_RANDOM_FIRST, **more})
        cases += compare("tiermap self-serving", memory=not sweeps_memory)
        # DI-MMAP's buffer for hot pages.
        for share in (0, 50, 75) if sweeps_memory and options == FULLY_EXTERNAL and not bench.brief else ():
            settings = {"TIERMAP_POLICY": "hot-fifo", "TIERMAP_HOT_SHARE": str(share)}
            cases += [dataclasses.replace(case, environment=settings, for_peers=False)
                      for case in compare(f"tiermap, {share} % for hot pages", mmap=())]
    return cases


def ingest_page_sizes(bench):
    scale = bench.points(19, 20, 22)
    size = LIST_BYTES << scale
    sizes = bench.points((4 * KIB, 16 * KIB), (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB),
                         (4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, MIB))
    stores = (("tiermap, one file", ()), ("tiermap, 32 files", ("--segments", 32)),
              ("tiermap, 1024 files", ("--segments", 1024)))
    # mmap maps plain files only. It comes first, as it takes least time.
    cases = ingest(bench, scale, size, 4 * bench.cores, tiermap=())
    for page in sizes:
        ways = tuple((series, ("--page-size", option_bytes(page), *SELF_SERVING, *options))
                     for series, options in stores)
        cases += ingest(bench, scale, size, 4 * bench.cores, x=page, tiermap=ways, mmap=())
    return cases


def ingest(bench, scale, size, count, **more):
    # Each thread has a piece of edges, and the same edges in groups. Counting edges before, and comparing lists after,
    # take memory that mmap would use for pages in between.
    beside = count * (MIB + MIB // 8) + max((EDGE_COUNT_BYTES << scale) - overhead(size), 0)
    return bench.compare(INGEST, "--scale", scale, "--threads", count, "--no-verify",
                         limit=max(size // 2, 40 * MIB), beside=beside, data_bytes=size, metric="edges_per_second",
                         **more)


def ingest_threads(bench):
    scale = bench.choose(19, 20, 22)
    way = (("tiermap self-serving, 4KiB pages", ("--page-size", "4KiB", *SELF_SERVING)),)
    cases = []
    for count in bench.threads:
        cases += ingest(bench, scale, LIST_BYTES << scale, count, x=count, tiermap=way)
    return cases


_TEXT = ("`tiermap-bfs` on an R-MAT graph with Graph500's probabilities, 32 edges a vertex; the tree is validated. "
         "What the search itself keeps for each vertex comes on top of the limit, for all systems alike. \"Hints\" are "
         "the program's own list of what the next vertices need, which mmap gets as MADV_WILLNEED; \"turning\" goes "
         "through every other level from the end.")
_QUEUES = ("`tiermap-bfs` on an R-MAT graph with Graph500's probabilities, 32 edges a vertex, traversed by threads "
           "that each have a queue of vertices to visit. ")
_INGEST = ("`tiermap-ingest`: R-MAT edges, 16 a vertex, put into adjacency lists in a file up to twice as large as "
           "memory. That all lists are right is for the tests to say: to compare them takes memory that mmap would use "
           "for pages. The final sync() counts.")

SCENARIOS = (
    Scenario("bfs-page-size", "Breadth-first search: page sizes", _TEXT, (BFS,), page_sizes, "page size", weight=2.5),
    Scenario("bfs-threads", "Breadth-first search: threads", _TEXT + " Memory is a quarter of the graph.", (BFS,),
             threads, "threads", weight=1.5),
    Scenario("bfs-memory", "Breadth-first search: memory",
             _TEXT + " Memory for pages is a share of the graph, and what the program itself needs.", (BFS,),
             memory_shares, "memory, % of the data", weight=1.5),
    Scenario("bfs-scale", "Breadth-first search: sizes of the graph", _TEXT + " Memory is half of each graph.", (BFS,),
             scales, "scale", weight=1.5),
    Scenario("bfs-semi-external", "Visitor queues, graph on the store: threads",
             _QUEUES + "The graph is in the mapped file; queues and what is kept for each vertex are in memory.",
             (BFS,),
             lambda bench: _asynchronous(bench, SEMI_EXTERNAL, False), "threads", needs=((BFS, "--traversal"),)),
    Scenario("bfs-semi-external-memory", "Visitor queues, graph on the store: memory",
             _QUEUES + "The graph is in the mapped file; queues and what is kept for each vertex are in memory.",
             (BFS,),
             lambda bench: _asynchronous(bench, SEMI_EXTERNAL, True), "memory, % of the data",
             needs=((BFS, "--traversal"),)),
    Scenario("bfs-fully-external", "Visitor queues, all on the store: threads",
             _QUEUES + "The graph, the queues and what is kept for each vertex are in mapped files.", (BFS,),
             lambda bench: _asynchronous(bench, FULLY_EXTERNAL, False), "threads", needs=((BFS, "--state"),)),
    Scenario("bfs-fully-external-memory", "Visitor queues, all on the store: memory",
             _QUEUES + "The graph, the queues and what is kept for each vertex are in mapped files.", (BFS,),
             lambda bench: _asynchronous(bench, FULLY_EXTERNAL, True), "memory, % of the data",
             needs=((BFS, "--state"),)),
    Scenario("ingest-page-size", "Graph construction: page sizes and stores", _INGEST, (INGEST,), ingest_page_sizes,
             "page size", weight=1.5),
    Scenario("ingest-threads", "Graph construction: threads", _INGEST, (INGEST,), ingest_threads, "threads"),
)
