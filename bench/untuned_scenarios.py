"""The scenario of programs without any settings: every workload beside the best mmap."""
import copy

from cases import ADVICE, MMAP_RANDOM_FIRST, MMAP_WAYS, Case, Scenario, overhead
from engine_scenarios import data_file
from graph_scenarios import BFS, INGEST, LIST_BYTES, graph_file, ingest, search
from lookup_scenarios import KMER, RANDOM_IO, SEARCH, kmer_database, kmer_input
from measurement import MIB, option_bytes
from service_scenarios import MEDIAN, YCSB, median, ycsb
from sort_scenarios import PROGRAM as SORT, sort

# The programs' own choices of a page size are settings too.
UNTUNED = (("tiermap untuned", ("--page-size", "auto")),)
PLAIN = {"tiermap": UNTUNED, "mmap": MMAP_WAYS}
READS = ("bench-random_read", "bench-sequential_read")
FEW = "a thread a processor"
PANELS = ("sort", "bfs", "sequential read", "random blocks of 64 KiB", f"random-io, read, {FEW}",
          "random-io, read, 64 threads", f"random-io, write, {FEW}", "search", "k-mer look-up", "ingest",
          "ycsb, workload A", "median")


def _small(bench):
    """The same on data of its own, smaller: there is much to measure."""
    small = copy.copy(bench)
    small.data_bytes = bench.data_bytes // 2
    small.limit = bench.limit // 2
    small.scratch = bench.scratch / "shared-untuned"
    if not bench.dry:
        small.scratch.mkdir(exist_ok=True)
    return small


def _random_io(bench, access, threads, how_many):
    metric = "accesses_per_second" if access == "read" else "synced_accesses_per_second"
    return bench.compare(RANDOM_IO, "--access", access, "--bytes", option_bytes(bench.data_bytes), "--threads", threads,
                         "--accesses", bench.choose(20000, 100000, 1000000), metric=metric,
                         panel=f"random-io, {access}, {how_many}", **PLAIN)


def _look_ups(bench):
    file = bench.scratch / "sorted-words"
    size = bench.make(file, SEARCH, "--structure", "vector", "--bytes", option_bytes(bench.data_bytes), "--file", file,
                      "--keep", "--lookups", 1, "--json")
    return bench.compare(SEARCH, "--in", file, "--lookups", bench.choose(2000, 20000, 1 << 20), panel="search",
                         metric="lookups_per_second", data_bytes=size, drop=(file,), **PLAIN)


def _kmers(bench):
    database, size = kmer_database(bench, "two-level")
    return bench.compare(KMER, "--database", database, "--reads", kmer_input(bench, 0.01) / "reads.fastq", "--work",
                         "lookup", "--lookups", bench.choose(20000, 100000, 1000000), limit=max(size // 4, 48 * MIB),
                         panel="k-mer look-up", metric="kmers_per_second", data_bytes=size, drop=(database,),
                         **{**PLAIN, "mmap": MMAP_RANDOM_FIRST})


def _reads(bench, program, panel, metric, *options):
    """One of the measuring programs that read a file."""
    path = data_file(bench)

    def case(series, system, *ways):
        budget = option_bytes(bench.limit - overhead(bench.data_bytes))
        command = [bench.program(program), "--system", system, "--file", path, "--budget", budget, "--json", *options,
                   *ways]
        return Case(series, system, command, panel=panel, metric=metric, limit=bench.limit,
                    data_bytes=bench.data_bytes, drop=(path,))
    return [*(case(series, "tiermap", *ways) for series, ways in UNTUNED),
            *(case(f"mmap {advice}", "mmap", "--madvise", advice) for advice in ADVICE)]


def untuned(bench):
    bench = _small(bench)
    hinted = {**PLAIN, "mmap": bench.mmap_with_hints}
    graph_scale = bench.choose(18, 19, 20)
    graph, graph_bytes = graph_file(bench, graph_scale)
    lists_scale = bench.choose(19, 20, 21)  # Of less the lists fit into what mmap has.
    seconds = bench.choose(1, 2, 4)
    return [*sort(bench, bench.cores, panel="sort", **hinted),
            *search(bench, graph, graph_bytes, graph_scale, limit=graph_bytes // 4, panel="bfs", **hinted),
            *_reads(bench, READS[1], "sequential read", "bytes_per_second"),
            *_reads(bench, READS[0], "random blocks of 64 KiB", "operations_per_second", "--block", "64KiB",
                    "--threads", bench.cores, "--seconds", seconds, "--warm-up", seconds),
            *_random_io(bench, "read", bench.cores, FEW), *_random_io(bench, "read", 64, "64 threads"),
            *_random_io(bench, "write", bench.cores, FEW), *_look_ups(bench), *_kmers(bench),
            *ingest(bench, lists_scale, LIST_BYTES << lists_scale, bench.cores, panel="ingest", **PLAIN),
            *ycsb(bench, "A", bench.cores, panel="ycsb, workload A", **PLAIN, x=None),
            *median(bench, "--vectors", bench.choose(50000, 200000, 1000000), panel="median", **hinted)]


SCENARIOS = (
    Scenario("untuned", "Untuned: every workload without a setting",
             "Each program with `--page-size auto` and nothing else chosen (no page size, no read-ahead, no fault mode), "
             "beside mmap with every advice. Memory is a quarter of the data, half in graph construction.",
             (SORT, BFS, RANDOM_IO, SEARCH, KMER, INGEST, YCSB, MEDIAN, *READS), untuned, weight=3),
)
