"""Scenarios of tiermap-ycsb (a key-value store under YCSB's workloads) and tiermap-median (medians through images)."""
import dataclasses

from cases import Scenario
from measurement import MIB, option_bytes

KIB = 1 << 10
YCSB, MEDIAN = "tiermap-ycsb", "tiermap-median"
SELF_SERVING = (("tiermap self-serving", ("--fault-mode", "self-serving")),)
BOTH_MODES = (*SELF_SERVING, ("tiermap notify", ("--fault-mode", "notify")))
WORKLOADS = "ABCDEF"
# What tiermap-median keeps of the vectors under way, beside the budget.
IN_FLIGHT_BYTES = 40 * MIB


def executors_bytes(threads):
    """What tiermap-ycsb keeps beside the pool: executors, what was acknowledged to them, and pages of the log on their way."""
    return 16 * MIB + threads * MIB // 2


def ycsb(bench, workload, threads, **more):
    size = bench.data_bytes // bench.choose(2, 1, 1)
    # A scan needs the ordered index. A log that the kernel has is nearer to N-Store's, in memory that persists, than
    # one that waits for the disk.
    index = "ordered" if workload == "E" else "hash"
    return bench.compare(YCSB, "--workload", workload.lower(), "--bytes", option_bytes(size), "--operations",
                         bench.choose(20000, 200000, 1000000), "--index", index, "--durability", "none", "--threads",
                         threads, limit=max(size // 4, 48 * MIB), beside=executors_bytes(threads), data_bytes=size,
                         metric="transactions_per_second",
                         **{"x": threads, "tiermap": BOTH_MODES[:1 if bench.brief else 2], **more})


def _databases(bench, workload, threads, **more):
    """RocksDB and LMDB, for which the program has systems of their own, in the same limit."""
    return [dataclasses.replace(case, series=system, system=system, for_peers=False,
                                command=[*case.command[:1], "--system", system, *case.command[3:]])
            for system in ("rocksdb", "lmdb")
            for case in ycsb(bench, workload, threads, tiermap=(("", ()),), mmap=(), **more)]


def ycsb_threads(bench):
    cases = []
    for workload in WORKLOADS[:1 if bench.brief else 6]:
        for threads in bench.threads if workload == "A" else bench.threads[-1:]:
            cases += ycsb(bench, workload, threads, panel=workload)
            cases += _databases(bench, workload, threads, panel=workload)
    return cases


def ycsb_page_sizes(bench):
    sizes = bench.choose((4 * KIB, 32 * KIB), (4 * KIB, 32 * KIB, 256 * KIB),
                         tuple(4 * KIB << step for step in range(9)))
    cases = []
    for size in sizes:
        ways = tuple((series, ("--page-size", option_bytes(size), *options)) for series, options in SELF_SERVING)
        cases += ycsb(bench, "A", 32, x=size, tiermap=ways, mmap=())
    return cases + ycsb(bench, "A", 32, x=None, tiermap=())


def median(bench, *options, **more):
    """Medians along vectors through images that are kept as floats, so that mmap, which maps the files, and Tiermap,
    which maps the pixels, page as many bytes."""
    images = bench.scratch / "shared-images"
    size = bench.make(images, MEDIAN, "--bytes", option_bytes(bench.data_bytes), "--bitpix", "-32", "--file", images,
                      "--keep", "--vectors", 1, "--no-verify", "--json")
    return bench.compare(MEDIAN, "--images", images, "--threads", bench.cores, *options, beside=IN_FLIGHT_BYTES,
                         data_bytes=size, drop=(images,), metric="vectors_per_second", **more)


def median_page_sizes(bench):
    sizes = bench.choose((64 * KIB, MIB), (64 * KIB, 256 * KIB, MIB), tuple(16 * KIB << step for step in range(10)))
    panels = (("many in flight", ("--vectors", bench.choose(100000, 1000000, 1000000))),
              # A few vectors: with so few under way each of their pixels costs a page.
              ("16 in flight", ("--in-flight", 16, "--vectors", bench.choose(200, 2000, 20000))))
    cases = []
    for panel, options in panels[:bench.choose(1, 2, 2)]:
        for page in sizes:
            ways = tuple((series, ("--page-size", option_bytes(page), *mode)) for series, mode in SELF_SERVING)
            cases += median(bench, *options, panel=panel, x=page, tiermap=ways, mmap=())
        cases += median(bench, *options, panel=panel, tiermap=(), mmap=bench.mmap_with_hints)
    return cases


_YCSB = ("`tiermap-ycsb --durability none`: a key-value store in a pool four times larger than memory; every value "
         "read is checked, and all of the pool at the end. The last checkpoint counts.")
SCENARIOS = (
    Scenario("ycsb-threads", "YCSB: executors", _YCSB + " RocksDB and LMDB have the same limit.", (YCSB,), ycsb_threads,
             "threads"),
    Scenario("ycsb-page-size", "YCSB: page sizes", _YCSB + " Workload A, 32 executors.", (YCSB,), ycsb_page_sizes,
             "page size"),
    Scenario("median-page-size", "Medians through a cube of images: page sizes",
             "`tiermap-median`: medians along random vectors through a series of images four times larger than memory; "
             "a sample is computed again, and planted objects have to be found. Each thread has many vectors under "
             "way, or 16, when almost every pixel is on another page.", (MEDIAN,), median_page_sizes, "page size"),
)
