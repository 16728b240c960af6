"""Scenarios of tiermap-sort: page sizes, threads, sparse stores, and what each optimisation of the engine gives."""
import dataclasses

from cases import Scenario, pages
from devices import DeviceUnavailable, loop_disk
from measurement import MIB, option_bytes, read_ahead_kib

KIB = 1 << 10
# Sorting plans its passes by what it may use, so mmap is told the same budget.
PROGRAM = "tiermap-sort"


def _bytes(bench):
    return bench.data_bytes // bench.choose(2, 1, 1)


def sort(bench, threads, **more):
    size = _bytes(bench)
    return bench.compare(PROGRAM, "--bytes", option_bytes(size), "--threads", threads, limit=max(size // 4, 48 * MIB),
                         data_bytes=size, **{"mmap": bench.mmap_with_hints, **more})


def page_sizes(bench):
    sizes = bench.choose((256 * KIB, MIB), (64 * KIB, 256 * KIB, MIB, 2 * MIB),
                         (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB))
    cases = []
    for size, way in pages(sizes):
        cases += sort(bench, bench.cores, x=size, tiermap=(way,), mmap=())
    return cases + sort(bench, bench.cores, tiermap=())


def threads(bench):
    page = bench.choose("1MiB", "2MiB", "2MiB")
    cases = []
    for count in bench.threads:
        cases += sort(bench, count, x=count, tiermap=((f"tiermap, {page} pages", ("--page-size", page)),))
    return cases


def read_ahead(bench):
    """The same on a disk whose read-ahead is what most disks have: mmap depends on it more than on anything else."""
    cases = sort(bench, bench.cores, tiermap=(("tiermap, 1MiB pages", ("--page-size", "1MiB")),))
    if bench.dry:
        return cases
    if read_ahead_kib(bench.scratch) == 128:
        bench.skip("read-ahead 128 KiB", "the disk's read-ahead is 128 KiB already")
        return []
    try:
        folder = bench.enter(loop_disk(bench.scratch, _bytes(bench) * 5 // 4 + 64 * MIB, 128))
    except DeviceUnavailable as reason:
        bench.skip("read-ahead 128 KiB", str(reason))
        return []
    return [dataclasses.replace(case, environment={"TMPDIR": str(folder)}) for case in cases]


def sparse(bench):
    sizes = bench.choose((64 * KIB,), (64 * KIB, 256 * KIB, MIB), (16 * KIB, 64 * KIB, 128 * KIB, 512 * KIB, MIB))
    stores = [("tiermap, one file", ())]
    for files in (32, 1024):
        segment = max(_bytes(bench) // files // (4 * KIB) * 4, 4)
        folder = bench.scratch / f"segments-{files}"
        stores.append((f"tiermap, {files} files", ("--file", f"sparse:{folder}?segment={segment}KiB")))
    cases = []
    for size in sizes:
        ways = tuple((series, ("--page-size", option_bytes(size), *options)) for series, options in stores)
        cases += sort(bench, bench.cores, x=size, tiermap=ways, mmap=())
    return cases + sort(bench, bench.cores, tiermap=())


def optimisations(bench):
    """Each of the engine's settings against its default."""
    cases = []
    variants = (("tiermap, default settings", {}),
                ("tiermap, eviction from 70 % on", {"TIERMAP_HIGH_WATERMARK": "70", "TIERMAP_LOW_WATERMARK": "60"}),
                ("tiermap, oldest page goes first", {"TIERMAP_POLICY": "fifo"}))
    for count in bench.choose((bench.cores,), bench.threads, bench.threads):
        for series, environment in variants:
            cases += [dataclasses.replace(case, environment=environment, for_peers=False) for case in sort(
                bench, count, x=count, tiermap=((series, ("--page-size", "1MiB")),), mmap=())]
        if bench.detail != "quick":
            cases += sort(bench, count, x=count, tiermap=())
    return cases


_TEXT = ("`tiermap-sort`: 64-bit words sorted in place, up to four times more data than memory; order and checksum "
         "verified. \"Hints\" are the program's own prefetches and flushes, which mmap gets as MADV_WILLNEED and "
         "sync_file_range().")

SCENARIOS = (
    Scenario("sort-page-size", "Sort: page sizes", _TEXT, (PROGRAM,), page_sizes, "page size", weight=1.5),
    Scenario("sort-threads", "Sort: threads", _TEXT, (PROGRAM,), threads, "threads", weight=1.5),
    Scenario("sort-sparse", "Sort: one file and many",
             _TEXT + " The words lie in one file, or in a sparse store of 32 or 1,024 files.", (PROGRAM,), sparse,
             "page size"),
    Scenario("sort-optimisations", "Sort: settings of the engine",
             _TEXT + " Each line changes one setting of the engine.", (PROGRAM,), optimisations, "threads"),
    Scenario("sort-read-ahead", "Sort: a disk with a read-ahead of 128 KiB",
             _TEXT + " The disk is a file system on a loop device.", (PROGRAM,), read_ahead, weight=0.7),
)
