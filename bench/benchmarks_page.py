"""Writes docs/benchmarks.md from measured results, and nothing else: every number and verdict comes from the runs. What
people write by hand stands between two markers and is kept."""
import figures
from measurement import format_bytes

BY_HAND = ("<!-- by hand: begin -->", "<!-- by hand: end -->")

# (scenario, title, what it is, what was aimed at)
SECTIONS = (
    ("random-reads", "Uniform random reads",
     "Blocks at uniform random places of a file, read-only; memory is a quarter of the file, Tiermap's page is the block. "
     "One word in every 4 KiB of a block is read and checked. Each run begins with nothing in memory; the seconds in which "
     "it fills are not counted. Up to a quarter of the reads find their page in memory then. fio keeps as many reads in "
     "flight as there are threads, and checks nothing; it and pread() with O_DIRECT keep nothing in memory.",
     "Aim: at least 0.9 of fio with the self-serving engine, and not below the best mmap at any point."),
    ("sequential-read", "Sequential read, cold",
     "One pass over a file four times larger than memory by one thread: the sum of its words, checked.",
     "Aim: within 5 % of `read()` with O_DIRECT and of the best mmap."),
    ("fault-latency", "One fault",
     "4 KiB pages of a store in memory, each touched once in random order: no disk. The mean includes reading the clock.",
     "Aim: under 6 us self-served and 200,000 a second on 2 cores; notify under 25 us; on an idle machine."),
    ("sort", "Sort",
     "`tiermap-sort`: 64-bit words sorted in place, four times more data than memory; order and checksum verified. "
     "\"Hints\" are the program's own prefetches and flushes, which mmap gets as MADV_WILLNEED and sync_file_range().",
     "Aim: 2.5 times faster than the best mmap, and no slower with two to eight times more threads than cores."),
    ("breadth-first-search", "Breadth-first search",
     "`tiermap-bfs` on an R-MAT graph with Graph500's probabilities, 32 edges a vertex; the tree is validated. "
     "What the search itself keeps for each vertex comes on top of the limit, for all systems alike. \"Hints\" are the "
     "program's own list of what the next vertices need, which mmap gets as MADV_WILLNEED; \"turning\" goes through every "
     "other level from the end.",
     "Aim: 1.8 times faster than the best mmap at ratios 4 and 2; within 5 % of plain memory where all fits."),
)

# What the aims above say in numbers: (scenario, how the tables' titles begin, rival, least times as good). Where none is
# said, Tiermap is to be ahead.
AIMS = (
    ("random-reads", "", "fio", 0.9),
    ("sequential-read", "", "mmap", 0.95),
    ("sequential-read", "", "read()", 0.95),
    ("sort", "", "mmap", 2.5),
    ("breadth-first-search", "ratio", "mmap", 1.8),
    ("breadth-first-search", "all fits", "memory", 0.95),
)


def aim_of(key, title, rival):
    """How many times as good as the best of these rivals Tiermap is to be in this table, at least."""
    return next((least for scenario, begin, kind, least in AIMS
                 if (scenario, kind) == (key, rival) and title.startswith(begin)), 1)


def verdict(ratio, aim):
    """A word on a ratio, as far as the page shows it; none if it is ahead and was to be no further ahead."""
    shown = round(ratio, 2)
    if shown >= aim:
        return "" if shown >= 1 else " (within the aim)"
    return " (loss)" if shown < 1 else " (short of the aim)"


def number(value, unit):
    """A value as a reader wants it."""
    if unit == "bytes/s":
        return f"{value / 1e6:,.0f} MB/s"
    if unit == "reads/s":
        return f"{value:,.0f}"
    return f"{value:,.2f}"


def best_row(rows, better, prefix):
    """The best of the rows whose first label begins so."""
    found = [row for row in rows if row["summary"] and row["labels"][0].startswith(prefix)]
    choose = min if better == "less" else max
    return choose(found, key=lambda row: row["summary"]["median"]) if found else None


def advantage(ours, other, better):
    """How many times better we are: above 1 is a win whatever the unit."""
    ours, other = ours["summary"]["median"], other["summary"]["median"]
    return other / ours if better == "less" else ours / other


def table_lines(table):
    """The table as Markdown."""
    width = max(len(row["labels"]) for row in table["rows"])
    unit = {"reads/s": "reads/s", "bytes/s": "rate"}.get(table["unit"], table["unit"])
    heads = ["system", "threads"][:width]
    yield "| " + " | ".join([*heads, f"median {unit}", "least", "most", "runs", "CPU s", "read", "peak memory"]) + " |"
    yield "|" + "---|" * (len(heads) + 7)
    for row in table["rows"]:
        labels, last = [str(label) for label in row["labels"]], row["last"]
        cells = ([number(row["summary"][key], table["unit"]) for key in ("median", "min", "max")]
                 + [str(row["summary"]["runs"])] if row["summary"] else [row["problem"] or "failed", "", "", "0"])
        cpu = last.get("cpu_seconds", last.get("user_seconds", 0) + last.get("system_seconds", 0))
        cells.append(f"{cpu:.1f}" if cpu else "")
        cells.append(format_bytes(last["read_bytes"]) if "read_bytes" in last else "")
        cells.append(format_bytes(last["group_peak_bytes"]) if last.get("group_peak_bytes") else "")
        yield "| " + " | ".join(labels + cells) + " |"


def comparisons(key, scenario):
    """(table title, labels of ours, labels of the other, advantage, least aimed at) against the best of each kind of
    rival."""
    for table in scenario["tables"]:
        groups = sorted({tuple(row["labels"][1:]) for row in table["rows"]})
        for group in groups:
            rows = [row for row in table["rows"] if tuple(row["labels"][1:]) == group]
            ours = best_row(rows, table["better"], "tiermap")
            for rival in ("mmap", "fio", "pread", "read()", "memory"):
                other = best_row(rows, table["better"], rival)
                if ours and other:
                    yield (table["title"] + "".join(f", {label} threads" for label in group), ours["labels"][0],
                           other["labels"][0], advantage(ours, other, table["better"]),
                           aim_of(key, table["title"], rival))


def summary_lines(results):
    """Wins and losses, each with a word where it is not what was aimed at."""
    yield "| scenario | case | best Tiermap | against | times as good |"
    yield "|---|---|---|---|---|"
    for key, title, _, _ in SECTIONS:
        for case, ours, other, ratio, aim in comparisons(key, results["scenarios"].get(key, {"tables": []})):
            yield f"| {title} | {case} | {ours} | {other} | {ratio:.2f}{verdict(ratio, aim)} |"


def stage_lines(scenario):
    """The stages of a fault, from the engine's own histograms."""
    yield "| case | system | threads | stage | count | half under, us | 99 % under, us | CPU a fault, us |"
    yield "|---|---|---|---|---|---|---|---|"
    for table in scenario["tables"]:
        for row in table["rows"]:
            stages = row["last"].get("statistics", {}).get("stages", {})
            for name, stage in stages.items():
                if stage["count"]:
                    cpu = f"{row['last']['cpu_microseconds_per_fault']:.2f}" if name == "total" else ""
                    yield (f"| {table['title']} | {row['labels'][0]} | {row['labels'][1]} | {name} | {stage['count']:,} | "
                           f"{stage['p50_ns'] / 1000:.2f} | {stage['p99_ns'] / 1000:.2f} | {cpu} |")


def section_lines(key, title, text, aim, scenario, figure):
    machine = scenario["machine"]
    yield f"## {title}\n"
    yield f"{text} {aim}\n"
    yield (f"Data: {format_bytes(scenario['data_bytes'])} where the table says nothing else. Runs a case: "
           f"{scenario['repetitions']}. Measured on {machine['date']}, read-ahead of the disk {machine['read_ahead_kib']} "
           "KiB.\n")
    if figure:
        yield f"![{title}](figures/{figure})\n"
    if scenario["problem"]:
        yield f"This scenario failed: {scenario['problem']}\n"
    for table in scenario["tables"]:
        extra = (f" ({format_bytes(table['data_bytes'])} of data, limit {format_bytes(table['limit_bytes'])})"
                 if "limit_bytes" in table else "")
        yield f"### {title}: {table['title']}{extra}\n"
        yield from table_lines(table)
        yield ""
    if key == "fault-latency":
        yield "### Stages\n\nHistograms have buckets of powers of two: read the limits as \"at most\".\n"
        yield from stage_lines(scenario)
        yield ""
    for what, reason in scenario["skipped"]:
        yield f"Skipped: {what}: {reason}.\n"


def kept_by_hand(path):
    """What stands between the markers in the page that is there."""
    if path.exists():
        before, found, after = path.read_text().partition(BY_HAND[0])
        if found:
            return after.partition(BY_HAND[1])[0].strip("\n")
    return ""


def write(results, path):
    """Writes the page and its figures."""
    by_hand = kept_by_hand(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    machines = {(scenario["machine"]["processor"], scenario["machine"]["cores"], scenario["machine"]["memory_bytes"],
                 scenario["machine"]["kernel"], scenario["machine"]["system"])
                for scenario in results["scenarios"].values()}
    lines = ["# Benchmarks\n",
             "`make bench` measures everything below and writes this page; `make bench-quick` shows that it runs. Every "
             "number is a measurement of this project's own programs on the machine named here. Systems take turns, "
             "the page cache is dropped before each run, and each run has the same memory limit (a control group), in "
             "which page cache counts: Tiermap's budget is the limit less 24 MiB for the program itself. A table "
             "shows the median, the least and the most of all runs. \"Read\" is what the process read from the disk; "
             "\"peak memory\" is the group's, page cache included.\n"]
    for processor, cores, memory, kernel, system in sorted(machines):
        lines.append(f"Machine: {processor}, {cores} cores, {format_bytes(memory)} of memory, Linux {kernel}, {system}.\n")
    lines += ["## Wins and losses\n",
              "Medians; above 1 Tiermap is ahead. The rival is the best of its kind. What is below 1 is a loss, unless the "
              "aim of the scenario allows it; what is ahead, and was to be further ahead, is short of the aim.\n",
              *summary_lines(results), ""]
    for key, title, text, aim in SECTIONS:
        scenario = results["scenarios"].get(key)
        if scenario:
            figure = figures.draw(key, title, scenario, path.parent / "figures")
            lines += section_lines(key, title, text, aim, scenario, figure)
        else:
            lines.append(f"## {title}\n\nNot measured yet.\n")
    lines += [BY_HAND[0], *([by_hand] if by_hand else []), BY_HAND[1], ""]
    path.write_text("\n".join(lines))
