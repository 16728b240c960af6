"""Scenarios of the persistent heap: what a block costs, what opening costs, and a graph that is built in containers."""
from cases import Case, Scenario, overhead
from measurement import GIB, MIB, option_bytes

ALLOCATION, INGEST = "bench-heap_allocation", "tiermap-ingest"
# Bytes a vertex of `tiermap-ingest --heap`, 16 edges each: what its containers ask for.
CONTAINER_BYTES = 118


def _value(key):
    return lambda report: report[key]


def allocation(bench):
    """Each step of the program is a panel, and has runs of its own."""
    blocks = bench.choose(200_000, 2_000_000, 2_000_000)
    systems = (("tiermap::Heap", "tiermap", "heap", ()),
               ("tiermap::Heap, 1MiB pages", "tiermap", "heap", ("--page-size", "1MiB")),
               ("its allocator alone", "allocator", "allocator", ()), ("malloc", "memory", "malloc", ()),
               ("managed_mapped_file", "boost", "boost", ()))
    return [Case(series, system,
                 [bench.program(ALLOCATION), "--system", name, "--blocks", blocks, "--path", bench.scratch / "blocks",
                  *options],
                 panel=step, metric="cpu_nanoseconds", data_bytes=blocks * 136, for_peers=False,
                 value=_value(f"{step}_cpu_nanoseconds"))
            for step in ("allocate", "churn", "free") for series, system, name, options in systems]


def opening(bench):
    size = bench.choose(1, 10, 10)
    command = [bench.program(ALLOCATION), "--reopen", size, "--path", bench.scratch / "blocks"]
    return [Case(step, "tiermap", command, panel=f"{size} GiB", metric="milliseconds", data_bytes=size * GIB,
                 for_peers=False, value=_value(f"{key}_milliseconds"))
            for step, key in (("close", "close"), ("open", "open"), ("first block", "allocate"),
                              ("first checkpoint, of one block", "checkpoint"))]


def space(bench):
    """Of the closed heap: the files on the disk, metadata and all; the address space that is taken by blocks."""
    scale = bench.choose(16, 20, 21)
    command = [bench.program(INGEST), "--heap", "--scale", scale, "--threads", bench.cores, "--checkpoints", "off",
               "--budget", option_bytes(CONTAINER_BYTES << scale), "--json"]
    return [Case(series, system, command, metric="bytes", data_bytes=CONTAINER_BYTES << scale, for_peers=False,
                 value=_value(key))
            for series, system, key in (("on the disk", "tiermap", "disk_bytes"),
                                        ("taken by blocks", "tiermap", "taken_bytes"),
                                        ("asked for by the containers", "asked", "asked_bytes"))]


def _build(bench, scale, budget, threads, *options):
    return [bench.program(INGEST), "--heap", "--scale", scale, "--threads", threads, "--budget", option_bytes(budget),
            "--no-verify", "--json", *options]


def graph_in_memory(bench):
    """All fits, so that it is the allocator and the first touch of each page that are compared."""
    scale = bench.choose(18, 20, 21)
    size = CONTAINER_BYTES << scale
    threads = bench.cores
    ways = (("tiermap", "tiermap", ("--system", "tiermap", "--checkpoints", "off", "--page-size", "64KiB")),
            ("tiermap, checkpoints", "tiermap", ("--system", "tiermap", "--page-size", "64KiB")),
            ("mmap", "mmap", ("--system", "mmap")), ("malloc", "memory", ("--system", "memory")))
    return [Case(series, system, _build(bench, scale, 3 * size, threads, *options), panel="all fits, until built",
                 metric="edges_per_second", data_bytes=size, for_peers=False,
                 value=lambda report: report["edges"] / report["insert_seconds"])
            for series, system, options in ways]


def graph_out_of_core(bench):
    """The same heap by its own pages and by the kernel's, in one limit; the heap's close(), after which all is durable,
    counts."""
    scale = bench.points(19, 20, 21)
    size = CONTAINER_BYTES << scale
    threads = 4 * bench.cores
    # What the program needs beside pages, the banks' locks, and what each thread makes edges in come on top.
    budget = size // 4
    limit = budget + overhead(size) + threads * MIB // 2 + MIB
    ways = [(f"tiermap, {page} pages", "tiermap", ("--system", "tiermap", "--checkpoints", "off", "--page-size", page))
            for page in bench.points(("16KiB", "64KiB"), ("4KiB", "16KiB", "64KiB"),
                                     ("4KiB", "16KiB", "32KiB", "64KiB", "128KiB"))]
    ways.append(("tiermap, 64KiB pages, checkpoints", "tiermap", ("--system", "tiermap", "--page-size", "64KiB")))
    # Read-ahead makes mmap many times slower here: it is looked at where there is time.
    ways += [(f"mmap {advice}", "mmap", ("--system", "mmap", "--madvise", advice))
             for advice in bench.points(("random",), ("random", "normal"), ("random", "normal"))]
    return [Case(series, system, _build(bench, scale, budget, threads, *options), panel="memory for a quarter",
                 metric="edges_per_second", limit=limit, data_bytes=size, for_peers=False)
            for series, system, options in ways]


def graph(bench):
    return graph_in_memory(bench) + graph_out_of_core(bench)


SCENARIOS = (
    Scenario("heap-allocation", "The persistent heap: blocks",
             "`bench-heap_allocation`: two threads allocate 2 million blocks of 16 to 256 bytes and write a word into "
             "each, free one at random and allocate another as often, and free all: the processor time of an "
             "operation, the engine's and the kernel's included.", (ALLOCATION,), allocation),
    Scenario("heap-opening", "The persistent heap: opening",
             "A heap in blocks of 16 bytes to 4 KiB into which nothing was written is closed and opened. Aim: under "
             "100 ms until it is open.", (ALLOCATION,), opening, weight=0.5),
    Scenario("heap-space", "The persistent heap: space",
             "`tiermap-ingest --heap`: what a graph of R-MAT edges, 16 a vertex, in hash maps of vectors takes.",
             (INGEST,), space, weight=0.5, needs=((INGEST, "--heap"),)),
    Scenario("heap-graph", "The persistent heap: a graph in containers",
             "`tiermap-ingest --heap`: R-MAT edges, 16 a vertex, put into hash maps of vectors by several threads.",
             (INGEST,), graph, needs=((INGEST, "--heap"),)),
)
