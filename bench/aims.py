"""The figures to reach: what is aimed at, what the papers had, and which measured ratio decides."""
import dataclasses

from comparison import Amount, Pick, Ratio, amount_of, points_over_threads, ratio_of, worst_step
from remote_scenarios import BLOCKS, DEPTHS, panel_of
from untuned_scenarios import PANELS as UNTUNED_PANELS


@dataclasses.dataclass(frozen=True)
class Aim:
    key: str
    what: str
    least: float
    paper: str
    scenario: str
    ratio: Ratio | Amount = Ratio()
    # Less is better: the ratio or the amount is to be at most `least`.
    at_most: bool = False


# How keys call them, and panels.
RANK_PROGRAMS = (("gray-scott", "Gray-Scott"), ("dbscan", "DBSCAN"))
SPARK_PROGRAMS = (("kmeans", "k-means"), ("forest", "Random forest"))

FIGURES = (
    Aim("sort", "Sort against mmap", 2.5, "2.5 (MCHPC, Fig. 2)", "sort-page-size"),
    Aim("bfs", "Breadth-first search level by level, memory for a quarter, against mmap", 1.8, "1.8 (MCHPC, Fig. 3)",
        "bfs-page-size", Ratio(panel="ratio 4")),
    Aim("bfs-ratio-2", "The same, memory for half", 1.8, "1.8 (MCHPC, Fig. 3)", "bfs-page-size",
        Ratio(panel="ratio 2")),
    Aim("bfs-fully-external", "Breadth-first search, all on the store, against mmap", 3,
        "7.44 (DI-MMAP, Fig. 12; a 2.6 kernel)", "bfs-fully-external"),
    Aim("kmer-lookup", "k-mer look-up, two-level index, against mmap", 2, "4 (DI-MMAP, Fig. 7b)", "kmer-lookup",
        Ratio(panel="two-level")),
    Aim("search-vector", "Search in a sorted vector against mmap", 2, "(DI-MMAP, Fig. 6: a plot only)", "search",
        Ratio(panel="vector")),
    Aim("search-ordered", "Search in a red-black tree against mmap", 2, "(DI-MMAP, Fig. 6: a plot only)", "search",
        Ratio(panel="ordered")),
    Aim("search-unordered", "Search in a hash table against mmap", 2, "(DI-MMAP, Fig. 6: a plot only)", "search",
        Ratio(panel="unordered")),
    Aim("ycsb", "YCSB, workload A, at the most executors, against mmap", 1.9, "1.9 (UMap, Fig. 3c)", "ycsb-threads",
        Ratio(Pick(x="highest"), panel="A")),
    Aim("ingest", "Graph construction against mmap", 5, "5 to 12 (UMap, Fig. 8)", "ingest-page-size"),
    Aim("ingest-sparse", "Graph construction, 16 KiB pages: 1,024 files against one", 1.3, "1.7 (UMap, Fig. 8)",
        "ingest-page-size", Ratio(Pick(series="tiermap, 1024 files", x=16 << 10),
                                  Pick("tiermap", "tiermap, one file"))),
    Aim("random-io", "Random reads by 128 threads: of direct I/O", 0.9, "0.87 (DI-MMAP, Fig. 3)", "random-io-read",
        Ratio(Pick(x=128), Pick("direct"))),
    Aim("half-memory", "Breadth-first search, all on the store: times as long with half the memory", 1.23,
        "1.23 (DI-MMAP, Fig. 13)", "bfs-fully-external-memory",
        Ratio(Pick(series="tiermap self", x=25), Pick("tiermap", "tiermap self", 12.5)), at_most=True),
    Aim("lrzip", "lrzip through `tiermap run`, memory for a quarter, against itself", 1.25, "1.25 (MCHPC, Fig. 4)",
        "unmodified", Ratio(panel="lrzip, memory for a quarter")),
    *(Aim(f"fits-{program.replace(' ', '-')}", f"{program} through `tiermap run`, all fits in four fifths of the "
          "buffer, of its speed without", 0.95, "", "unmodified", Ratio(panel=f"{program}, all fits in 5/4"))
      for program in ("lrzip", "sqlite3 look-ups", "sqlite3 scan", "mdb_dump", "ripgrep", "np.memmap gather")),
    Aim("gather", "numpy.memmap's random rows: tiermap.memmap against it as it comes", 2, "", "python-gather",
        Ratio(other=Pick("mmap", "numpy.memmap as it comes"))),
    Aim("gather-advised", "The same, against its best advice", 1, "", "python-gather"),
    Aim("warm-sum", "Sum of a mapped array in memory, of the speed of a plain one", 0.97, "", "python-warm",
        Ratio(other=Pick("memory"))),
    # No more than malloc's, and under Metall's 1.2, 0.8 and 0.2 of it.
    *(Aim(f"heap-{step}", f"The persistent heap without checkpoints, {step}: processor time against malloc's", least,
          f"{metall} (Metall)", "heap-allocation", Ratio(Pick(series="tiermap::Heap"), Pick("memory"), step))
      for step, least, metall in (("allocate", 1, "0.83"), ("churn", 1.25, "1.25"), ("free", 5, "5"))),
    Aim("heap-space", "A graph in the heap's containers: its files, times the bytes that these ask for", 1.25, "",
        "heap-space",
        Ratio(Pick("asked"), Pick(series="on the disk")), at_most=True),
    Aim("heap-graph", "The same graph built, all in memory, against malloc", 0.95, "0.8 (Metall on mmap)",
        "heap-graph", Ratio(other=Pick("memory"), panel="all fits, until built")),
    Aim("heap-graph-quarter", "The same without checkpoints, memory for a quarter, against the same heap on mmap", 5,
        "5 to 12 (UMap, Fig. 8)", "heap-graph", Ratio(panel="memory for a quarter")),
    Aim("half-memory-levels", "Breadth-first search level by level: times as long with half the memory", 1.23,
        "1.23 (DI-MMAP, Fig. 13)", "bfs-memory", Ratio(Pick(x=50), Pick("tiermap", x=25)), at_most=True),
    *(Aim(f"transaction-{step}", f"{what} through a transaction, all in memory, against std::vector", 0.98, paper,
          "vector-transactions", Ratio(other=Pick("memory"), panel=f"{step}, all in memory",
                                       within=f"{step}_memory_elements_per_second"))
      for step, what, paper in (("scan", "A scan", "0.95 (MegaMmap)"), ("random", "Random elements", ""))),
    *(Aim(f"coverage-{step}", f"Pages that {what} through a transaction needs, memory for a quarter: % that are there in "
          "time", 95, "", "vector-transactions",
          Amount(Pick(series=step), "pages in time, memory for a quarter"))
      for step, what in (("scan", "a scan"), ("random", "a walk over random elements"))),
    Aim("kmeans-quarter-memory", "k-means: times as long with memory for a quarter of the data", 1.1,
        "1.1 with 1/2.6 of the memory (MegaMmap, Fig. 8)", "kmeans-memory", Ratio(Pick(x=100), Pick("tiermap", x=25)),
        at_most=True),
    Aim("dbscan-memory", "DBSCAN: times as long with memory for 0.4 of what it keeps", 1.1,
        "1.1 with half of the memory (MegaMmap, Fig. 8)", "dbscan-memory", Ratio(Pick(x=100), Pick("tiermap", x=40)),
        at_most=True),
    Aim("kmeans-spark", "k-means with a quarter of Spark MLlib's memory: times as fast", 5,
        "2 with a third to a quarter (MegaMmap, Fig. 5)", "kmeans-spark", Ratio(other=Pick("spark"))),
    Aim("forest-memory", "Random forest: times as long with memory for 0.4 of table and sample", 1.1,
        "1.1 with half of the memory (MegaMmap, Fig. 8)", "forest-memory", Ratio(Pick(x=100), Pick("tiermap", x=40)),
        at_most=True),
    Aim("forest-spark", "Random forest with a quarter of Spark MLlib's memory: times as fast", 5,
        "2 with a third to a quarter (MegaMmap, Fig. 5)", "forest-spark", Ratio(other=Pick("spark"))),
    Aim("gray-scott-half-memory", "Gray-Scott: times as long with memory for half of the grid", 1.1,
        "1.1 with half of the memory (MegaMmap, Fig. 8)", "gray-scott-memory",
        Ratio(Pick(x=100), Pick("tiermap", x=50)), at_most=True),
    Aim("gray-scott-tiers", "Gray-Scott with checkpoints: emulated NVMe-class tier against emulated HDD-class tier", 1.8,
        "1.8 (MegaMmap, Fig. 7)", "gray-scott-tiers",
        Ratio(Pick(series="emulated NVMe-class tier, background"), Pick("tiermap", "emulated HDD-class tier, background"))),
    Aim("gray-scott-background", "Gray-Scott with checkpoints, emulated NVMe-class tier: in the background against "
        "between the steps", 1.2, "1.2 (MegaMmap, Fig. 6)", "gray-scott-tiers",
        Ratio(Pick(series="emulated NVMe-class tier, background"), Pick("tiermap", "emulated NVMe-class tier, synchronous"))),
    Aim("gray-scott-twice", "Gray-Scott, a grid twice the memory, where plain memory is killed: of the speed of plain "
        "memory without a limit", 0.8, "(MegaMmap, Fig. 6: completes)", "gray-scott-twice",
        Ratio(other=Pick("memory", "plain memory, no limit"))),
    *(Aim(f"remote-{order}-{block >> 10}k-{depth}", f"Remote reads of {block >> 10} KiB over TCP loopback, {order}, "
          f"{depth} at once: of ucx_perftest's bytes a second", least, "", "remote-reads",
          Ratio(Pick(x=block), Pick("ucx"), panel_of(order, depth)))
      for order, least in (("random", 0.8), ("sequential", 0.9)) for depth in DEPTHS for block in BLOCKS),
    *(Aim(f"weak-scaling-{name}", f"{program}, 2 ranks, all in memory: times as long as the plain MPI program", 1.05,
          "(MegaMmap, Fig. 5: a plot only)", "weak-scaling", Ratio(Pick("mpi", x=2), Pick("tiermap", x=2), program),
          at_most=True) for name, program in RANK_PROGRAMS),
    *(Aim(f"wire-{name}", f"{program}, 8 ranks: bytes on the wire, times those that plain MPI is given to send", 1.1, "",
          "ranks-wire", Ratio(Pick("mpi", x=8), Pick("tiermap", x=8), program), at_most=True)
      for name, program in RANK_PROGRAMS),
    *(Aim(f"coherence-{phase}", f"Coherence messages of ranks in a phase that is {phase}", 0, "", "shared-phases",
          Amount(Pick(series=phase)), at_most=True) for phase in ("local", "read-only")),
    *(Aim(f"false-sharing-{between}-{ranks}", f"False sharing, {ranks} ranks, a {between} after each round: bytes moved for "
          "each one that changed", 2, "", "false-sharing", Amount(Pick(x=ranks), f"a {between} after each round"),
          at_most=True) for between in ("release", "barrier") for ranks in (2, 8)),
    *(Aim(f"{name}-spark-ranks", f"{program} by 2 ranks, with a quarter of the memory of Spark MLlib's 2 workers: times as "
          "fast", 5, "2 with a third to a quarter (MegaMmap, Fig. 5)", f"{name}-spark-ranks", Ratio(other=Pick("spark")))
      for name, program in SPARK_PROGRAMS),
    *(Aim(f"{name}-spark-ranks-memory", f"{program} by 2 ranks: most memory of all processes, page cache included, of that "
          "of Spark's", 0.25, "0.25 to 0.33 (MegaMmap, Fig. 5)", f"{name}-spark-ranks",
          Ratio(Pick("spark"), Pick("tiermap"), metric="group_peak_bytes"), at_most=True)
      for name, program in SPARK_PROGRAMS),
    Aim("kmer-clients", "k-mer look-ups in a remote database: 2 clients against 1", 1, "(UMap, Fig. 7: almost linear to 4 "
        "nodes)", "kmer-clients", Ratio(Pick(x=2), Pick("tiermap", x=1))),
    Aim("kmer-clients-full", "The same, 4 clients on the servers' machine: % of the processors at work, that is whether "
        "these are full", 90, "", "kmer-clients", Amount(Pick(x=4), metric="processors_at_work_percent")),
    *(Aim(f"untuned-{panel.replace(',', '').replace(' ', '-')}", f"Untuned, {panel}: against mmap", 0.9, "", "untuned",
          Ratio(panel=panel)) for panel in UNTUNED_PANELS),
)

# Throughput must not fall as threads are added, 2 to 64. A median that is lower by less than this is taken for noise.
NOISE = 0.05
THREADS = ("sort-threads", "bfs-threads", "bfs-semi-external", "bfs-fully-external", "random-io-read",
           "random-io-write", "search", "kmer-lookup", "kmer-threads", "ingest-threads", "ycsb-threads")

# How the series of mmap's ways are called.
ADVICES = ("mmap normal", "mmap random", "mmap sequential")
HINTS = ", hints"

# What the scenarios' other comparisons were to reach: (scenario, how the panels' names begin, rival, least times as
# good). Where none is said, Tiermap is to be ahead.
OTHERS = (
    ("random-reads", "", "fio", 0.9),
    ("sequential-read", "", "mmap", 0.95),
    ("sequential-read", "", "direct", 0.95),
    ("sort-page-size", "", "mmap", 2.5),
    ("bfs-page-size", "ratio", "mmap", 1.8),
    ("bfs-page-size", "all fits", "memory", 0.95),
    ("random-io-read", "", "direct", 0.9),
    ("remote-reads", "random", "ucx", 0.8),
    ("remote-reads", "sequential", "ucx", 0.9),
    ("weak-scaling", "", "mpi", 0.95),
    ("ranks-wire", "", "mpi", 0.91),
    ("kmeans-spark-ranks", "", "spark", 5),
    ("forest-spark-ranks", "", "spark", 5),
    ("untuned", "", "mmap", 0.9),
)
IN_WORDS = {
    "random-reads": "Aim: at least 0.9 of fio with the self-serving engine, and not below the best mmap at any point.",
    "remote-reads": "Aim: at least 0.8 of ucx_perftest at random, 0.9 in sequence.",
    "weak-scaling": "Aim: within 5 % of plain MPI's time at 2 ranks.",
    "ranks-wire": "Aim: within 10 % of plain MPI's bytes.",
    "shared-phases": "Aim: none in the phases local and read-only.",
    "false-sharing": "Aim: at most two bytes for each one that changed.",
    "kmer-clients": "Aim: look-ups a second grow until the cores or the wire are full.",
    "untuned": "Aim: never slower than the best mmap by more than 10 %.",
    "sequential-read": "Aim: within 5 % of `read()` with O_DIRECT and of the best mmap.",
    "fault-latency": "Aim: under 6 us self-served and 200,000 a second on 2 cores; notify under 25 us; on an idle "
                     "machine.",
    "sort-page-size": "Aim: 2.5 times faster than the best mmap.",
    "sort-threads": "Aim: no slower with two to eight times more threads than cores.",
    "bfs-page-size": "Aim: 1.8 times faster than the best mmap at ratios 4 and 2; within 5 % of plain memory where all "
                     "fits.",
}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """An aim as it was measured."""
    key: str
    what: str
    aim: str
    paper: str
    measured: str
    met: bool | None


def outcome_of(aim, lines, label=""):
    """What the results say of an aim."""
    wanted = f"at {'most' if aim.at_most else 'least'} {aim.least:g}"
    found = (amount_of if isinstance(aim.ratio, Amount) else ratio_of)(lines, aim.ratio)
    if found is None:
        return Outcome(aim.key, aim.what, wanted, aim.paper, reason_for_none(lines, aim.ratio.panel), None)
    shown = round(found.value, 2)
    met = shown <= aim.least if aim.at_most else shown >= aim.least
    number = f"{shown:.2f}" if isinstance(aim.ratio, Ratio) else f"{shown:g}"
    of = " against ".join(described(point, label) for point in found.points)
    return Outcome(aim.key, aim.what, wanted, aim.paper, f"{number}, {runs_in_words(found.runs)}, {found.date}: {of}", met)


def runs_in_words(runs):
    return "1 run" if runs == 1 else f"{runs} runs"


def described(point, label=""):
    return point.series if point.x is None else f"{point.series} at {place(point.x, label)}"


def place(x, label=""):
    """A value of x as a reader wants it: page sizes are in bytes; with the unit that the label of x says."""
    if label == "threads":
        return "1 thread" if x == 1 else f"{x:g} threads"
    if label.endswith(("%", "% of the data")):
        return f"{x:g} %"
    if isinstance(x, int) and x >= 4096 and x & (x - 1) == 0:
        return f"{x >> 20} MiB" if x >= 1 << 20 else f"{x >> 10} KiB"
    return f"{x:g}" if isinstance(x, (int, float)) else str(x)


def reason_for_none(lines, panel=None):
    """Why there is no figure, of one panel if it is named."""
    skipped = next((line["reason"] for line in lines if line["kind"] == "skipped"), None)
    if not any(line["kind"] == "run" for line in lines):
        return f"not measured: {skipped}" if skipped else "not measured yet"
    if any(line["kind"] == "cut" for line in lines):
        return "not measured: cut by the time for it"
    failed = next((line["failed"] for line in lines
                   if line["kind"] == "run" and line["failed"] and panel in (None, line["panel"])), None)
    return f"not measured at this place{f' (a run failed: {failed})' if failed else ''}"


def threads_outcome(scenario, lines):
    """Whether throughput falls anywhere between 2 and 64 threads."""
    key = f"threads-{scenario.name}"
    what = f"{scenario.title.removesuffix(': threads')}: 2 to 64 threads, throughput never falls"
    step = worst_step(lines)
    aim = f"every step at least 1 (noise: {1 - NOISE:g})"
    if step is None:
        return Outcome(key, what, aim, "", reason_for_none(lines), None)
    ratio, earlier, later = step
    runs = min(len(earlier.values), len(later.values))
    panel = f"{later.panel}: " if later.panel and later.panel != "threads" else ""
    text = (f"worst step {ratio:.2f}, {runs_in_words(runs)}, {later.runs[-1]['time'][:10]}: {panel}{later.series}, "
            f"{earlier.x} to {later.x} threads")
    highest = max(point.x for point in points_over_threads(lines))
    if highest < 64:
        text += f"; no more than {highest} measured"
    without = [other for other in dict.fromkeys(line["panel"] for line in lines if line["kind"] == "run")
               if worst_step(lines, other) is None]
    if without:
        text += f"; not measured by two numbers of threads: {', '.join(without)}"
    return Outcome(key, what, aim, "", text, round(ratio, 2) >= 1 - NOISE)


def every_way_of_mmap(lines):
    """Whether each of mmap's advices has a run at each place where any has one; with a program's hints and without them
    in a panel that has any."""
    places = {}
    for line in lines:
        if line["kind"] == "run" and line["series"].startswith(ADVICES):
            places.setdefault((line["panel"], line["x"]), set()).add(line["series"])
    hinted = {panel for (panel, _), names in places.items() if any(HINTS in name for name in names)}
    return all({*ADVICES} <= names and (panel not in hinted or {advice + HINTS for advice in ADVICES} <= names)
               for (panel, _), names in places.items())


def outcomes(results, scenarios):
    """All of them; `results` are the lines of each scenario by name."""
    found = [outcome_of(aim, results.get(aim.scenario, []), scenarios[aim.scenario].x_label) for aim in FIGURES]
    return found + [threads_outcome(scenarios[name], results.get(name, [])) for name in THREADS]


def aim_of(scenario, panel, rival):
    """How many times as good as the best of these rivals Tiermap is to be in this panel, at least."""
    return next((least for name, begin, kind, least in OTHERS
                 if (name, kind) == (scenario, rival) and panel.startswith(begin)), 1)


def within_of(scenario, panel, rival):
    """The figure in Tiermap's own reports that its aim in this panel is compared by, if there is one (Ratio)."""
    return next((aim.ratio.within for aim in FIGURES if isinstance(aim.ratio, Ratio)
                 and (aim.scenario, aim.ratio.panel, aim.ratio.other.system) == (scenario, panel, rival)), None)


def verdict(ratio, aim):
    """A word on a ratio, as far as the page shows it; none if it is ahead and was to be no further ahead."""
    shown = round(ratio, 2)
    if shown >= aim:
        return "" if shown >= 1 else " (within the aim)"
    return " (loss)" if shown < 1 else " (short of the aim)"
