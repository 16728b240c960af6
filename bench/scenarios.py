"""The scenarios of `make bench`. Each returns what it measured as tables of cases; nothing here writes text."""
import os
import shutil

from devices import DeviceUnavailable, loop_disk
from measurement import GIB, MIB, format_bytes, interleaved, option_bytes, read_ahead_kib, run_json, summary

# What a program needs beside the pages of its data; see demo.py.
OVERHEAD = 24 * MIB
MMAP_ADVICE = ("normal", "random", "sequential")


class Bench:
    """Sizes, folders and the running of sets of cases in turn."""

    def __init__(self, binaries, scratch, detail, limit_problem):
        self.binaries = binaries
        self.scratch = scratch
        self.detail = detail
        self.quick = detail == "quick"
        self.limit_problem = limit_problem
        self.repetitions = 1 if self.quick else 3
        self.data_bytes = self.choose(GIB // 2, GIB, 4 * GIB)
        self.skipped = []

    def choose(self, quick, short, full):
        """What to do at this level of detail."""
        return {"quick": quick, "short": short, "full": full}[self.detail]

    def skip(self, what, reason):
        if (what, reason) not in self.skipped:
            self.skipped.append((what, reason))

    def case(self, program, *options, limit=None, drop=(), label=None, timeout=900, environment=None):
        command = [self.binaries / program, *options]
        text = label or " ".join([program, *map(str, options)])
        return lambda: run_json(command, limit_bytes=None if self.limit_problem else limit, drop=drop, label=text,
                                timeout=60 if self.quick else timeout, environment=environment)

    def measure(self, title, cases, metric, unit, better, **more):
        """One table: every case run in turn, `metric` summed up. A case is {(labels): function}."""
        if self.limit_problem:
            dropped = [labels for labels in cases if labels[0].startswith("mmap")]
            for labels in dropped:
                self.skip(f"{title}: {labels[0]}", self.limit_problem)
            cases = {labels: case for labels, case in cases.items() if labels not in dropped}
        results = interleaved(cases, self.repetitions)
        rows = []
        for labels, runs in results.items():
            good = [run for run in runs if "failed" not in run and run.get("verified", True) is True]
            row = {"labels": list(labels), "summary": summary([run[metric] for run in good]) if good else None,
                   "last": good[-1] if good else runs[-1]}
            problem = next((run["failed"] for run in runs if "failed" in run), None)
            if problem is None and len(good) < len(runs):
                problem = "wrong result"
            row["problem"] = problem
            rows.append(row)
        return {"title": title, "metric": metric, "unit": unit, "better": better, "rows": rows, **more}


def _data_file(bench, folder=None):
    path = (folder or bench.scratch) / "data"
    made = bench.case("bench-random_read", "--generate", "--file", path, "--bytes", option_bytes(bench.data_bytes),
                      label="writing the data")
    made()
    if not path.exists() or path.stat().st_size != bench.data_bytes:
        raise RuntimeError(f"{path} could not be made")
    return path


def _fio(bench, path, block, depth):
    """fio's view of the disk at the same concurrency."""
    seconds = bench.choose(1, 3, 4)
    command = ["fio", "--name=random", f"--filename={path}", "--rw=randread", f"--bs={block}", "--ioengine=io_uring",
               "--direct=1", f"--iodepth={depth}", "--time_based", f"--runtime={seconds}", "--output-format=json",
               "--readonly", "--norandommap"]

    def run():
        result = run_json(command, label=f"fio {block} x {depth}")
        if "failed" not in result:
            result["operations_per_second"] = result["jobs"][0]["read"]["iops"]
        return {key: value for key, value in result.items() if key != "jobs"}
    return run


def random_reads(bench):
    """Uniform random reads, memory a quarter of the file."""
    path = _data_file(bench)
    limit = bench.data_bytes // 4
    seconds = bench.choose(1, 3, 4)
    # Until memory is full: by one thread and 4 KiB at a time that takes longest.
    warm_up_seconds = bench.choose(1, 6, 24)
    tables = []
    for block_bytes in (4096, 65536):
        block = option_bytes(block_bytes)
        for threads in bench.choose((1, 8), (1, 8, 64), (1, 2, 8, 32, 64)):
            def case(system, *options):
                return bench.case("bench-random_read", "--system", system, "--file", path, "--block", block,
                                  "--page-size", block, "--threads", threads, "--seconds", seconds, "--warm-up",
                                  warm_up_seconds, "--budget",
                                  option_bytes(limit - OVERHEAD), "--json", *options, limit=limit, drop=[path],
                                  label=f"random {block} x {threads}: {' '.join([system, *options])}")
            cases = {("tiermap self-serving",): case("tiermap", "--fault-mode", "self-serving", "--madvise", "random"),
                     ("tiermap notify",): case("tiermap", "--fault-mode", "notify", "--madvise", "random")}
            cases |= {(f"mmap {advice}",): case("mmap", "--madvise", advice) for advice in MMAP_ADVICE}
            cases[("pread, O_DIRECT",)] = case("direct")
            if shutil.which("fio"):
                cases[("fio, io_uring",)] = _fio(bench, path, block_bytes, threads)
            else:
                bench.skip("random reads: fio", "fio is not installed")
            tables.append(bench.measure(f"{block} blocks, {threads} threads", cases, "operations_per_second", "reads/s",
                                        "more", block=block, threads=threads))
    path.unlink()
    return tables


def sequential_reads(bench):
    """One cold pass over a file."""
    path = _data_file(bench)
    limit = bench.data_bytes // 4

    def case(system, *options, budget=limit - OVERHEAD):
        return bench.case("bench-sequential_read", "--system", system, "--file", path, "--budget",
                          option_bytes(budget), "--json", *options, limit=limit, drop=[path],
                          label=f"sequential: {' '.join([system, *options])}")
    cases = {(f"tiermap, {page} pages, {advice}",): case("tiermap", "--page-size", page, "--madvise", advice)
             for page in ("64KiB", "1MiB", "4MiB") for advice in ("normal", "sequential")}
    # One pass gains nothing from much memory, and new memory costs time.
    cases[("tiermap, 4MiB pages, sequential, budget 64 MiB",)] = case("tiermap", "--page-size", "4MiB", "--madvise",
                                                                      "sequential", budget=64 * MIB)
    cases |= {(f"mmap {advice}",): case("mmap", "--madvise", advice) for advice in ("normal", "sequential")}
    cases |= {(f"read(), O_DIRECT, {block}",): case("direct", "--block", block) for block in ("1MiB", "8MiB")}
    table = bench.measure("one pass", cases, "bytes_per_second", "bytes/s", "more")
    path.unlink()
    return [table]


def fault_latency(bench):
    """Faults on data that is in memory already: no disk."""
    size = 64 * MIB if bench.quick else GIB
    tables = []
    for title, budget, evictors in (("room for all", 2 * size, 1), ("a quarter fits, each fault evicts", size // 4, 1)):
        cases = {}
        for mode in ("self-serving", "notify"):
            for threads in (1, 2, 8):
                cases[(f"tiermap {mode}", threads)] = bench.case(
                    "bench-fault_latency", "--fault-mode", mode, "--threads", threads, "--bytes", option_bytes(size),
                    "--budget", option_bytes(budget), "--page-size", "4KiB", "--evictors", evictors, "--json",
                    label=f"faults, {title}: {mode} x {threads}")
        tables.append(bench.measure(title, cases, "microseconds_mean", "us a fault", "less"))
    tables.append(_fault_optimisations(bench, size))
    return tables


def _fault_optimisations(bench, size):
    """The processor time of a fault with each optimisation and without it; each fault evicts."""
    def case(mode, page, **environment):
        return bench.case("bench-fault_latency", "--fault-mode", mode, "--threads", 1, "--bytes", option_bytes(size),
                          "--budget", option_bytes(size // 4), "--page-size", page, "--json", environment=environment,
                          label=f"faults: {mode}, {page}, {environment or 'as it is'}")
    cases = {}
    for page in ("4KiB", "64KiB", "2MiB"):
        cases[(f"self-serving, {page}, copied", 1)] = case("self-serving", page, TIERMAP_PLACEMENT="copy")
        cases[(f"self-serving, {page}, moved", 1)] = case("self-serving", page, TIERMAP_PLACEMENT="move")
    cases[("self-serving, 4KiB, copied, second chances counted", 1)] = case("self-serving", "4KiB")
    cases[("notify, 4KiB, no polling", 1)] = case("notify", "4KiB", TIERMAP_SPIN="0")
    cases[("notify, 4KiB, polling", 1)] = case("notify", "4KiB")
    cases[("notify, 4KiB, no unmapped pages kept", 1)] = case("notify", "4KiB", TIERMAP_POLICY="fifo")
    return bench.measure("with and without, a quarter fits, 1 thread", cases, "cpu_microseconds_per_fault",
                         "us of processor time", "less")


def _sort_case(bench, folder, system, threads, *options):
    size, limit, file = bench.data_bytes, bench.data_bytes // 4, folder / "words"
    sort_once = bench.case("tiermap-sort", "--system", system, "--file", file, "--bytes", option_bytes(size),
                           "--budget", option_bytes(limit - OVERHEAD), "--threads", threads, "--json", *options,
                           limit=limit, label=f"sort x {threads}: {' '.join([system, *options])}")

    def run():
        # The program makes and removes its file; one that was killed could not.
        file.unlink(missing_ok=True)
        return sort_once()
    return run


def _sort_mmap(bench, folder, threads):
    return {("mmap, no hints",): _sort_case(bench, folder, "mmap", threads, "--prefetch", "off"),
            ("mmap normal, hints",): _sort_case(bench, folder, "mmap", threads),
            ("mmap sequential",): _sort_case(bench, folder, "mmap", threads, "--madvise", "sequential")}


def sort(bench):
    """In-place sort of four times more data than memory: page sizes, then threads."""
    pages = bench.choose(("1MiB",), ("1MiB", "2MiB"), ("64KiB", "256KiB", "1MiB", "2MiB", "4MiB", "8MiB"))
    cores = os.cpu_count() or 2
    cases = {(f"tiermap, {page} pages",): _sort_case(bench, bench.scratch, "tiermap", cores, "--page-size", page)
             for page in pages}
    cases |= _sort_mmap(bench, bench.scratch, cores)
    if bench.detail == "full":
        cases[("mmap random",)] = _sort_case(bench, bench.scratch, "mmap", cores, "--madvise", "random")
    tables = [bench.measure(f"page sizes, {cores} threads", cases, "seconds", "s", "less")]
    best = _best(tables[0], "tiermap")
    page = best["labels"][0].split()[1] if best else pages[0]
    cases = {}
    for threads in bench.choose((2, 4), (2, 4, 16), (2, 4, 8, 16)):
        cases[(f"tiermap, {page} pages", threads)] = _sort_case(bench, bench.scratch, "tiermap", threads, "--page-size", page)
        for (name,), case in _sort_mmap(bench, bench.scratch, threads).items():
            if bench.detail == "full":
                cases[(name, threads)] = case
    tables.append(bench.measure("threads", cases, "seconds", "s", "less"))
    if bench.detail == "short":
        bench.skip("sort: mmap with more threads, and read-ahead 128 KiB", "left out of the short run")
        return tables
    with_loop(bench, "sort", lambda folder: tables.append(bench.measure(
        f"read-ahead 128 KiB, {cores} threads",
        {(f"tiermap, {page} pages",): _sort_case(bench, folder, "tiermap", cores, "--page-size", page),
         **_sort_mmap(bench, folder, cores)}, "seconds", "s", "less")))
    return tables


def _best(table, prefix):
    """The best row of a system."""
    rows = [row for row in table["rows"] if row["labels"][0].startswith(prefix) and row["summary"]]
    choose = min if table["better"] == "less" else max
    return choose(rows, key=lambda row: row["summary"]["median"]) if rows else None


def with_loop(bench, what, measure):
    """Runs `measure` with a folder on a disk whose read-ahead is 128 KiB, or says why not."""
    if read_ahead_kib(bench.scratch) == 128:
        bench.skip(f"{what}: read-ahead 128 KiB", "the disk's read-ahead is 128 KiB already")
        return
    try:
        with loop_disk(bench.scratch, bench.data_bytes + bench.data_bytes // 4, 128) as folder:
            measure(folder)
    except DeviceUnavailable as reason:
        bench.skip(f"{what}: read-ahead 128 KiB", str(reason))


def _bfs_cases(bench, graph, pages_bytes, scale, page_sizes, systems):
    """The graph has `pages_bytes` of memory; what the search keeps for each vertex comes on top, for every system. Each
    system is tried with its ways of looking ahead and of going through a level, so that the best of each meet."""
    cores = os.cpu_count() or 2
    limit = pages_bytes + (16 << scale)

    def case(system, *options):
        return bench.case("tiermap-bfs", "--system", system, "--graph", graph, "--budget",
                          option_bytes(pages_bytes - OVERHEAD), "--threads", cores, "--json", *options, limit=limit,
                          drop=[graph.parent], label=f"bfs in {format_bytes(pages_bytes)}: {' '.join([system, *options])}")
    if "memory" in systems:
        warm = ("--warm",)
        return {**{(f"tiermap, {page} pages, warm",): case("tiermap", "--page-size", page, *warm) for page in page_sizes},
                ("mmap normal, warm",): case("mmap", *warm), ("memory, warm",): case("memory", *warm)}
    turning = ("--scan", "alternate")
    cases = {(f"tiermap, {page} pages",): case("tiermap", "--page-size", page) for page in page_sizes}
    cases |= {(f"tiermap self-serving, {page} pages, turning",): case(
        "tiermap", "--page-size", page, "--fault-mode", "self-serving", *turning) for page in page_sizes}
    if "mmap" in systems:
        cases |= {(f"mmap {advice}",): case("mmap", "--madvise", advice, "--prefetch", "off")
                  for advice in ("normal", "sequential")}
        cases |= {(f"mmap {advice}, hints",): case("mmap", "--madvise", advice) for advice in MMAP_ADVICE}
        cases[("mmap normal, hints, turning",)] = case("mmap", *turning)
    return cases


def breadth_first_search(bench):
    """R-MAT traversal at ratio 4, ratio 2, and where all fits."""
    scale = bench.choose(20, 21, 22)
    pages = bench.choose(("64KiB", "1MiB"), ("256KiB", "1MiB", "2MiB"), ("64KiB", "256KiB", "1MiB", "2MiB"))

    def build(folder):
        graph = folder / "graph"
        made = bench.case("tiermap-bfs", "--scale", scale, "--edge-factor", 32, "--graph", graph, "--build-only", "--budget", "1GiB",
                          "--json", label="building the graph")()
        if "failed" in made:
            raise RuntimeError(made["failed"])
        return graph, sum(file.stat().st_size for file in folder.iterdir() if file.name.startswith("graph"))

    graph, size = build(bench.scratch)
    tables = []
    for title, limit in (("ratio 4", size // 4), ("ratio 2", size // 2)):
        limit = limit // MIB * MIB
        tables.append(bench.measure(title, _bfs_cases(bench, graph, limit, scale, pages, ("mmap",)), "seconds", "s", "less",
                                    data_bytes=size, limit_bytes=limit))
    # Room for the copy that plain memory is, and a search before the timed ones, so that all find it warm.
    limit = (2 * size + 512 * MIB) // MIB * MIB
    tables.append(bench.measure("all fits", _bfs_cases(bench, graph, limit, scale, ("64KiB", "2MiB"), ("mmap", "memory")),
                                "seconds", "s", "less", data_bytes=size, limit_bytes=limit))
    for file in bench.scratch.glob("graph*"):
        file.unlink()

    if bench.detail == "short":
        bench.skip("breadth-first search: read-ahead 128 KiB", "left out of the short run")
        return tables

    def on_loop(folder):
        graph, size = build(folder)
        limit = size // 4 // MIB * MIB
        tables.append(bench.measure("ratio 4, read-ahead 128 KiB", _bfs_cases(bench, graph, limit, scale, pages, ("mmap",)),
                                    "seconds", "s", "less", data_bytes=size, limit_bytes=limit))
    with_loop(bench, "breadth-first search", on_loop)
    return tables


SCENARIOS = {
    "random-reads": random_reads,
    "sequential-read": sequential_reads,
    "fault-latency": fault_latency,
    "sort": sort,
    "breadth-first-search": breadth_first_search,
}
