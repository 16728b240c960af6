"""Measured runs as JSON lines: one file a scenario, one line a run, written by the harness alone.

A line has all that it takes to run it again and to judge it: what was compared (scenario, panel, series, system, x),
the command and those that made its data, limits, the program's own report, the machine, its load, the time and the
commit. Beside runs (kind "run") there are lines that say what was left out and why ("skipped"), what a time budget cut
("cut"), and what is drawn for all ("about": sizes, cases, repetitions, the commands that made the data).
"""
import dataclasses
import json
import os
import statistics
import sys

# Of each metric: its unit, and whether more or less of it is better.
METRICS = {
    "seconds": ("s", "less"),
    "operations_per_second": ("reads/s", "more"),
    "accesses_per_second": ("accesses/s", "more"),
    # Not in any report: the operations by all seconds, the final sync() included.
    "synced_accesses_per_second": ("accesses/s", "more"),
    "lookups_per_second": ("look-ups/s", "more"),
    "kmers_per_second": ("k-mers/s", "more"),
    "bases_per_second": ("bases/s", "more"),
    "edges_per_second": ("edges/s", "more"),
    "transactions_per_second": ("transactions/s", "more"),
    "rows_per_second": ("rows/s", "more"),
    "elements_per_second": ("elements/s", "more"),
    "pages_in_time_percent": ("% of the pages", "more"),
    "cpu_nanoseconds": ("ns of a processor", "less"),
    "milliseconds": ("ms", "less"),
    "bytes": ("bytes", "less"),
    "vectors_per_second": ("vectors/s", "more"),
    "teps": ("edges/s", "more"),
    "bytes_per_second": ("bytes/s", "more"),
    "microseconds_mean": ("us a fault", "less"),
    "cpu_microseconds_per_fault": ("us of processor time", "less"),
    "faults": ("faults", "less"),
    "minor_faults": ("faults", "less"),
    "coherence_messages": ("messages", "less"),
    "moved_for_changed": ("bytes for each one that changed", "less"),
    "wire_bytes": ("bytes on the wire", "less"),
    "wire_bytes_per_second": ("bytes/s", "more"),
    "processors_at_work_percent": ("% of the processors", "more"),
    # Of the run, not of any report: a control group's, page cache included.
    "group_peak_bytes": ("bytes", "less"),
}


def unit_of(metric):
    return METRICS[metric][0]


def better_of(metric):
    return METRICS[metric][1]


def read_lines(path):
    """The lines of one file. A last line that was torn (the machine stopped while it was written) is left out, and
    said; any other line that is no JSON means that somebody edited the file."""
    lines = []
    if not path.exists():
        return lines
    texts = path.read_text(errors="replace").split("\n")
    for number, text in enumerate(texts, start=1):
        if not text:
            continue
        try:
            lines.append(json.loads(text))
        except ValueError:
            if number < len(texts):
                sys.exit(f"{path}:{number} is no JSON: results are never edited by hand; restore the file, or measure "
                         f"the scenario anew with --only {path.stem}")
            print(f"{path}:{number}: the last line is torn, and left out", file=sys.stderr)
    return lines


class ResultFolder:
    """The files of a folder, one a scenario."""

    def __init__(self, folder):
        self.folder = folder

    def path(self, scenario):
        return self.folder / f"{scenario}.jsonl"

    def read(self, scenario):
        return read_lines(self.path(scenario))

    def scenarios(self):
        """Names of all scenarios that have results."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def rewrite(self, scenario, lines):
        """Replaces a scenario's lines, all or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = self.path(scenario).with_suffix(".partial")
        with open(fresh, "w") as file:
            file.write("".join(json.dumps(line) + "\n" for line in lines))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path(scenario))

    def append(self, scenario, line):
        """Adds a line, which is on the disk when this returns. What a torn last line left behind goes first."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.path(scenario), "ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


@dataclasses.dataclass
class Point:
    """All runs of one case, summed up by one metric."""
    panel: str
    series: str
    system: str
    x: object
    metric: str
    runs: list
    values: list
    problem: str | None

    @property
    def good(self):
        return bool(self.values)

    @property
    def median(self):
        return statistics.median(self.values)

    @property
    def last(self):
        """The report of the last run that has one."""
        return next((run["result"] for run in reversed(self.runs) if run.get("result")), {})


def case_key(line):
    return line["panel"], line["series"], json.dumps(line["x"])


def points_of(lines, metric=None):
    """A Point for each case, in the order in which they were first run; by another metric of the reports if one is
    named."""
    cases = {}
    for line in lines:
        if line["kind"] == "run":
            cases.setdefault(case_key(line), []).append(line)
    points = []
    for runs in cases.values():
        first = runs[0]
        chosen = metric or first["metric"]
        values = [value for value in (value_of(run, chosen) for run in runs) if value is not None]
        problem = next((run["failed"] for run in runs if run.get("failed")), None)
        points.append(Point(*(first[key] for key in ("panel", "series", "system", "x")), chosen, runs, values, problem))
    return points


def value_of(run, metric):
    """What a run measured; None if it failed or its result was wrong."""
    if run.get("failed"):
        return None
    return run["value"] if metric == run["metric"] else run.get("result", {}).get(metric, run.get(metric))


def best(points, system, panel=None, x="any"):
    """The point with the best median of a system: over its settings, and over x unless one is named. A point whose x is
    None holds for every x."""
    found = [point for point in points if point.system == system and point.good and panel in (None, point.panel)
             and (x == "any" or point.x in (None, x))]
    if not found:
        return None
    choose = min if better_of(found[0].metric) == "less" else max
    return choose(found, key=lambda point: point.median)


def advantage(ours, other):
    """How many times better ours is: above 1 is a win whatever the unit."""
    if not ours.median or not other.median:
        return None
    return other.median / ours.median if better_of(ours.metric) == "less" else ours.median / other.median
