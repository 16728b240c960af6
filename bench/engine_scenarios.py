"""Scenarios of the library alone: random and sequential reads of a file, and single faults."""
from cases import ADVICE, Case, Scenario, have, overhead
from measurement import GIB, MIB, option_bytes


def data_file(bench):
    path = bench.scratch / "shared-data"
    bench.make(path, "bench-random_read", "--generate", "--file", path, "--bytes", option_bytes(bench.data_bytes))
    return path


def random_reads(bench):
    path = data_file(bench)
    limit = bench.limit
    seconds = bench.choose(1, 3, 4)
    # Until memory is full: by one thread and 4 KiB at a time that takes longest.
    warm_up_seconds = bench.choose(1, 6, 24)
    cases = []
    for block_bytes in (4096, 65536)[:bench.choose(1, 2, 2)]:
        block = option_bytes(block_bytes)
        for threads in bench.choose((8,), (1, 8, 64), (1, 2, 8, 32, 64)):
            def case(series, system, *options):
                return Case(series, system, [bench.program("bench-random_read"), "--system", system, "--file", path,
                                             "--block", block, "--page-size", block, "--threads", threads, "--seconds",
                                             seconds, "--warm-up", warm_up_seconds, "--budget",
                                             option_bytes(limit - overhead(bench.data_bytes)), "--json", *options],
                            panel=f"{block} blocks", x=threads, metric="operations_per_second", limit=limit,
                            data_bytes=bench.data_bytes, drop=(path,))
            cases += [case(f"tiermap {mode}", "tiermap", "--fault-mode", mode, "--madvise", "random")
                      for mode in ("self-serving", "notify")]
            cases += [case(f"mmap {advice}", "mmap", "--madvise", advice) for advice in ADVICE]
            cases.append(case("pread, O_DIRECT", "direct"))
            if have("fio"):
                cases.append(_fio(bench, path, block_bytes, threads))
            else:
                bench.skip("fio", "fio is not installed")
    return cases


def _fio(bench, path, block_bytes, threads):
    """fio's view of the disk at the same concurrency: as many reads in flight as there are threads."""
    command = ["fio", "--name=random", f"--filename={path}", "--rw=randread", f"--bs={block_bytes}",
               "--ioengine=io_uring", "--direct=1", f"--iodepth={threads}", "--time_based",
               f"--runtime={bench.choose(1, 3, 4)}",
               "--output-format=json", "--readonly", "--norandommap"]
    return Case("fio, io_uring", "fio", command, panel=f"{option_bytes(block_bytes)} blocks", x=threads,
                metric="operations_per_second", data_bytes=bench.data_bytes, for_peers=False,
                value=lambda report: report["jobs"][0]["read"]["iops"])


def sequential_reads(bench):
    path = data_file(bench)

    def case(series, system, *options, budget=bench.limit - overhead(bench.data_bytes)):
        return Case(series, system, [bench.program("bench-sequential_read"), "--system", system, "--file", path,
                                     "--budget", option_bytes(budget), "--json", *options],
                    panel="one pass", metric="bytes_per_second", limit=bench.limit, data_bytes=bench.data_bytes,
                    drop=(path,))
    cases = [case(f"tiermap, {page} pages, {advice}", "tiermap", "--page-size", page, "--madvise", advice)
             for page in bench.choose(("1MiB",), ("64KiB", "1MiB", "4MiB"), ("64KiB", "1MiB", "4MiB"))
             for advice in ("normal", "sequential")]
    # One pass gains nothing from much memory, and new memory costs time.
    small = min(64 * MIB, bench.limit - overhead(bench.data_bytes))
    cases.append(case(f"tiermap, 4MiB pages, sequential, budget {small // MIB} MiB", "tiermap", "--page-size", "4MiB",
                      "--madvise", "sequential", budget=small))
    cases += [case(f"mmap {advice}", "mmap", "--madvise", advice) for advice in ("normal", "sequential")]
    cases += [case(f"read(), O_DIRECT, {block}", "direct", "--block", block) for block in ("1MiB", "8MiB")]
    return cases


def fault_latency(bench):
    """Faults on data that is in memory already: no disk."""
    size = bench.choose(128 * MIB, GIB, GIB)

    def case(series, panel, mode, page, budget, metric, threads, **environment):
        command = [bench.program("bench-fault_latency"), "--fault-mode", mode, "--threads", threads, "--bytes",
                   option_bytes(size), "--budget", option_bytes(budget), "--page-size", page, "--evictors", 1, "--json"]
        return Case(series, "tiermap", command, panel=panel, x=threads, metric=metric, data_bytes=size,
                    environment=environment, for_peers=False)
    cases = []
    for panel, budget in (("room for all", 2 * size), ("a quarter fits, each fault evicts", size // 4)):
        cases += [case(f"tiermap {mode}", panel, mode, "4KiB", budget, "microseconds_mean", threads)
                  for mode in ("self-serving", "notify") for threads in bench.choose((1, 2), (1, 2, 8), (1, 2, 8))]
    panel = "with and without, a quarter fits, 1 thread"

    def variant(series, mode, page, **environment):
        return case(series, panel, mode, page, size // 4, "cpu_microseconds_per_fault", 1, **environment)
    for page in ("4KiB", "64KiB", "2MiB"):
        cases.append(variant(f"self-serving, {page}, copied", "self-serving", page, TIERMAP_PLACEMENT="copy"))
        cases.append(variant(f"self-serving, {page}, moved", "self-serving", page, TIERMAP_PLACEMENT="move"))
    cases.append(variant("self-serving, 4KiB, copied, second chances counted", "self-serving", "4KiB"))
    cases.append(variant("notify, 4KiB, no polling", "notify", "4KiB", TIERMAP_SPIN="0"))
    cases.append(variant("notify, 4KiB, polling", "notify", "4KiB"))
    cases.append(variant("notify, 4KiB, no unmapped pages kept", "notify", "4KiB", TIERMAP_POLICY="fifo"))
    return cases


SCENARIOS = (
    Scenario("random-reads", "Uniform random reads",
             "Blocks at uniform random places of a file, read-only; memory is a quarter of the file, Tiermap's page is "
             "the block. One word in every 4 KiB of a block is read and checked. Each run begins with nothing in "
             "memory; the seconds in which it fills are not counted. Up to a quarter of the reads find their page in "
             "memory then. fio keeps as many reads in flight as there are threads, and checks nothing; it and pread() "
             "with O_DIRECT keep nothing in memory.", ("bench-random_read",), random_reads, "threads"),
    Scenario("sequential-read", "Sequential read, cold",
             "One pass over a file four times larger than memory by one thread: the sum of its words, checked.",
             ("bench-random_read", "bench-sequential_read"), sequential_reads, weight=0.5),
    Scenario("fault-latency", "One fault",
             "4 KiB pages of a store in memory, each touched once in random order: no disk. The mean includes reading "
             "the clock.", ("bench-fault_latency",), fault_latency, "threads", weight=0.7),
)
