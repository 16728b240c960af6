"""Writes the page of benchmarks, the page of its tables, and the plots, from the files of results and of notes
alone: every number and verdict comes from the runs. The same files give the same text, on any machine."""
import pathlib
import textwrap

import aims
import plots
from aims import described, place, reason_for_none, verdict
from comparison import advantage_within, ratio_of
from measurement import format_bytes
from paper_figures import FIGURES, IMPOSSIBLE, PAPERS, STAND_INS
from results import advantage, best, points_of
from scenarios import SCENARIOS

NOTES = pathlib.Path(__file__).resolve().parent / "notes"
RIVALS = ("mmap", "fio", "direct", "memory", "rocksdb", "lmdb", "spark", "ucx", "mpi")
NAMES = {"direct": "direct I/O"}
# What there are whole ones of.
COUNTED = ("faults", "messages", "bytes on the wire")


def number(value, unit):
    """A value as a reader wants it."""
    if unit == "bytes/s":
        return f"{value / 1e6:,.0f} MB/s"
    return f"{value:,.0f}" if unit.endswith("/s") or unit in COUNTED else f"{value:,.2f}"


def wrap(text, first="", rest=""):
    """A paragraph in lines as narrow as everything here."""
    return textwrap.fill(text, 118, initial_indent=first, subsequent_indent=rest, break_long_words=False,
                         break_on_hyphens=False)


class Page:
    """What is being written: the results of each scenario by name, the notes, and where plots go."""

    def __init__(self, results, path, notes=NOTES, draw=True):
        self.results = results
        self.path = path
        self.notes = notes
        self.draw = draw
        self.tables = path.with_name(path.stem.removesuffix("s") + "-tables.md")
        self.plots = path.parent / "figures"
        self.drawn = set()

    def note(self, key, folder="aims"):
        """What explains an aim that is not met, or a loss that is no aim; None if nothing does."""
        path = self.notes / folder / f"{key}.md" if self.notes else None
        return path.read_text().strip() if path and path.exists() else None

    def lines(self, scenario):
        return self.results.get(scenario, [])

    def plot(self, name, scenario, title, figure=None):
        """Markdown for a picture of these results, empty if there is nothing to see."""
        lines = self.lines(scenario.name)
        if not plots.panels_of(lines, figure):
            return ""
        self.drawn.add(f"{name}.png")
        target = self.plots / f"{name}.png"
        if self.draw and not (target.exists() and plots.checksum_in(target) == plots.checksum(lines, figure)):
            plots.draw(target, lines, scenario.x_label, title, figure)
        return f"![{title}](figures/{name}.png)\n"


def machines_of(results):
    """One line for each machine that measured anything."""
    found = {}
    for lines in results.values():
        for line in lines:
            if line["kind"] == "run":
                machine = line["machine"]
                found[tuple(machine[key] for key in ("processor", "cores", "memory_bytes", "kernel", "system"))] = None
    return [f"Machine: {processor}, {cores} cores, {format_bytes(memory)} of memory, Linux {kernel}, {system}.\n"
            for processor, cores, memory, kernel, system in sorted(found)]


def anchor(key):
    """What GitHub makes of a heading."""
    return key.replace(".", "").lower()


def aim_lines(page):
    """The figures to reach, each met or explained."""
    yield "| figure | aim | in the paper | measured (ratio of medians) | |"
    yield "|---|---|---|---|---|"
    outcomes = aims.outcomes(page.results, SCENARIOS)
    for outcome in outcomes:
        word = {True: "met", False: "not met", None: ""}[outcome.met]
        if outcome.met is False and page.note(outcome.key):
            word += f"; [why](#why-{anchor(outcome.key)})"
        yield f"| {outcome.what} | {outcome.aim} | {outcome.paper} | {outcome.measured} | {word} |"
    yield ""
    yield wrap("mmap is taken at its best: every advice (and, where a program says in advance what it will touch, with "
               "and without that) is tried, the best median counts, and its name stands beside it. A thread count "
               f"whose median is lower by less than {100 * aims.NOISE:g} % counts as noise. A transaction and "
               "`std::vector` are measured in turn by one process: the median is that of the ratios within each run.")
    partly = [name for name in SCENARIOS if not aims.every_way_of_mmap(page.lines(name))]
    if partly:
        yield ""
        yield wrap("Not every way of mmap has a run at every place, as the measurement was cut, ended early or had fewer "
                   f"ways, in {', '.join(f'`{name}`' for name in partly)}: there its best is the best of those in the "
                   "tables.")
    yield ""
    for outcome in outcomes:
        if outcome.met is False and page.note(outcome.key):
            yield f"### Why: {outcome.key}\n\n{page.note(outcome.key)}\n"


def comparisons(name, lines):
    """(case, ours, other, ratio, least aimed at) against the best of each kind of rival, at each place."""
    points = points_of(lines)
    for panel in dict.fromkeys(point.panel for point in points):
        inside = [point for point in points if point.panel == panel]
        rivals = dict.fromkeys((*RIVALS, *(point.system for point in inside)))
        # Where a rival has no x of its own (mmap beside page sizes), ours is taken at its best.
        for rival in (rival for rival in rivals if rival not in ("tiermap", "mmap unlimited")):
            theirs = [point for point in inside if point.system == rival and point.good]
            for x in sorted({point.x for point in theirs}, key=lambda x: (x is not None, x)):
                ours = best(inside, "tiermap") if x is None else best(inside, "tiermap", x=x)
                other = best(inside, rival, x="any" if x is None else x)
                within = aims.within_of(name, panel, rival)
                ratio = None
                if ours and other:
                    ratio = advantage_within(ours, within) if within else advantage(ours, other)
                if ratio:
                    case = ", ".join(filter(None, (panel, "" if x is None else x_in_words(name, x))))
                    yield case, ours, other, ratio, aims.aim_of(name, panel, rival)


def x_in_words(name, x):
    label = SCENARIOS[name].x_label
    if label == "threads":
        return place(x, label)
    return f"{label}: {place(x)}"


def comparison_lines(page):
    """Every comparison, and what explains those that are behind, where a note does."""
    explained = {}
    yield "| scenario | case | best Tiermap | against | times as good |"
    yield "|---|---|---|---|---|"
    for name, scenario in SCENARIOS.items():
        for case, ours, other, ratio, aim in comparisons(name, page.lines(name)):
            # Its place is in the case already, unless it is the best of all places.
            best_of_ours = described(ours, scenario.x_label) if other.x is None else ours.series
            word = verdict(ratio, aim)
            key = f"{name}-{ours.panel}".replace(" ", "-")
            if word and page.note(key, "losses"):
                word += f"; [why](#why-{anchor(key)})"
                explained[key] = page.note(key, "losses")
            yield f"| {scenario.title} | {case} | {best_of_ours} | {other.series} | {ratio:.2f}{word} |"
    for key, note in explained.items():
        yield f"\n### Why: {key}\n\n{note}"


def figure_lines(page):
    """The papers' figures, each with its plot, and what the paper's text says beside what was measured."""
    for key, (_, citation) in PAPERS.items():
        yield f"### {citation.split('*')[1]}\n"
        yield wrap(citation + ".") + "\n"
        for figure in (figure for figure in FIGURES if figure.paper == key):
            yield from one_figure(page, figure)
        for _, number_, shows, reason in (entry for entry in IMPOSSIBLE if entry[0] == key):
            yield wrap(f"**{number_}**, {shows}: not mirrored. {sentence(reason)}.") + "\n"


def one_figure(page, figure):
    scenario, lines = SCENARIOS[figure.scenario], page.lines(figure.scenario)
    name = PAPERS[figure.paper][0]
    yield f"#### {name}, {figure.number}: {figure.shows}\n"
    picture = page.plot(figure.key, scenario, f"{name}, {figure.number}: {figure.shows}", figure)
    if not picture:
        why = reason_for_none(lines)
        yield f"Scenario `{scenario.name}`: {why}.\n"
        return
    yield picture
    yield wrap(f"Scenario `{scenario.name}` ([tables]({page.tables.name}#{scenario.name})). "
               + STAND_INS.get(figure.scenario, "")) + "\n"
    if figure.values:
        yield "| the paper's text says | paper | here | of |"
        yield "|---|---|---|---|"
        for value in figure.values:
            found = ratio_of(lines, value.ours)
            paper = f"{value.paper:g} to {value.paper_to:g}" if value.paper_to else f"{value.paper:.2f}"
            here = "not measured at this place |"
            if found:
                points = [described(point, scenario.x_label) for point in (found.ours, found.other)]
                here = f"{found.value:.2f} | {points[0]} against {points[1]}"
            yield f"| {value.text} ({value.where}) | {paper} | {here} |"
        yield ""
    yield from remark_lines(lines)


def engine_lines(page):
    """The scenarios that mirror no paper."""
    for scenario in SCENARIOS.values():
        if scenario.name in {figure.scenario for figure in FIGURES}:
            continue
        yield f"### {scenario.title}\n"
        yield wrap(f"{about_scenario(scenario)} Scenario `{scenario.name}` ([tables]({page.tables.name}#"
                   f"{scenario.name})).") + "\n"
        lines = page.lines(scenario.name)
        yield page.plot(scenario.name, scenario, scenario.title) or f"{sentence(reason_for_none(lines))}.\n"
        yield from remark_lines(lines)


def about_scenario(scenario):
    return " ".join(filter(None, (scenario.text, aims.IN_WORDS.get(scenario.name))))


def sentence(text):
    return text[:1].upper() + text[1:]


def ended_early(lines):
    """Whether a measurement ended before its rounds were done, and was not cut: somebody interrupted it. Only mmap's ways
    are not all repeated. Of older results it is not known how many cases there were."""
    about = next((line for line in lines if line["kind"] == "about"), {"repetitions": 1})
    points = points_of(lines)
    unfinished = len(points) < about.get("cases", 0) or any(
        len(point.runs) < about["repetitions"] and not point.problem and point.system != "mmap" for point in points)
    return unfinished and not any(line["kind"] == "cut" for line in lines)


def remark_lines(lines):
    """What was skipped, cut or disturbed."""
    if ended_early(lines):
        runs = sum(1 for line in lines if line["kind"] == "run")
        yield f"Ended early, after {runs} runs: some cases have not all their rounds, or none.\n"
    for line in lines:
        if line["kind"] == "skipped":
            yield f"Skipped: {line['what']}: {line['reason']}.\n"
        elif line["kind"] == "cut":
            none = line["cases_without_a_run"]
            yield (f"Cut after {line['runs']} of {line['whole']} runs, in round {line['repetition']}: its time was up"
                   + (f"; {none} cases have no run" if none else "") + ".\n")
    loud = sum(1 for line in lines if line["kind"] == "run" and line.get("quiet") is False)
    if loud:
        runs = sum(1 for line in lines if line["kind"] == "run")
        yield f"Other work was going on at the beginning of {loud} of {runs} runs.\n"


def table_lines(points, x_label):
    """The points of a panel as Markdown."""
    unit = {"bytes/s": "rate"}.get(points[0].runs[0].get("unit"), points[0].runs[0].get("unit"))
    with_x = any(point.x is not None for point in points)
    heads = ["system", *([x_label or "at"] if with_x else []), f"median {unit}", "least", "most", "runs", "CPU s",
             "read", "peak memory"]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for point in points:
        last, run = point.last, point.runs[-1]
        cells = [point.series, *([place(point.x) if point.x is not None else ""] if with_x else [])]
        if point.good:
            cells += [number(value, run["unit"]) for value in (point.median, min(point.values), max(point.values))]
            cells.append(str(len(point.values)) + (f" ({point.problem})" if point.problem else ""))
        else:
            cells += [point.problem or "failed", "", "", "0"]
        cpu = last.get("cpu_seconds", last.get("user_seconds", 0) + last.get("system_seconds", 0))
        cells.append(f"{cpu:.1f}" if cpu else "")
        cells.append(format_bytes(last["read_bytes"]) if "read_bytes" in last else "")
        cells.append(format_bytes(run["group_peak_bytes"]) if run.get("group_peak_bytes") else "")
        yield "| " + " | ".join(cells) + " |"


def stage_lines(points):
    """The stages of a fault, from the engine's own histograms."""
    yield "| case | system | threads | stage | count | half under, us | 99 % under, us | CPU a fault, us |"
    yield "|---|---|---|---|---|---|---|---|"
    for point in points:
        for name, stage in point.last.get("statistics", {}).get("stages", {}).items():
            if stage["count"]:
                cpu = f"{point.last['cpu_microseconds_per_fault']:.2f}" if name == "total" else ""
                yield (f"| {point.panel} | {point.series} | {point.x} | {name} | {stage['count']:,} | "
                       f"{stage['p50_ns'] / 1000:.2f} | {stage['p99_ns'] / 1000:.2f} | {cpu} |")


def about_line(lines):
    """Sizes, repetitions, dates and the disk of a scenario's runs."""
    runs = [line for line in lines if line["kind"] == "run"]
    dates = sorted({run["time"][:10] for run in runs})
    sizes = sorted({run["data_bytes"] for run in runs if run["data_bytes"]})
    limits = sorted({run["limit_bytes"] for run in runs if run["limit_bytes"]})
    ahead = sorted({run["machine"]["read_ahead_kib"] for run in runs} - {None})
    commits = sorted({run["commit"] for run in runs if run.get("commit")})
    parts = [f"Data: {', '.join(map(format_bytes, sizes))}" if sizes else "",
             f"limit: {', '.join(map(format_bytes, limits))}" if limits else "",
             f"measured on {', '.join(dates)}",
             f"read-ahead of the disk {', '.join(map(str, ahead))} KiB" if ahead else "",
             f"commit {', '.join(commits)}" if commits else "",
             *sorted({run["converted"] for run in runs if run.get("converted")})]
    return wrap("; ".join(filter(None, parts)) + ".")


def scenario_lines(page, scenario):
    """Everything that was measured of one scenario."""
    lines = page.lines(scenario.name)
    yield f"## {scenario.name}\n"
    yield wrap(f"**{scenario.title}.** {about_scenario(scenario)}") + "\n"
    points = points_of(lines)
    if not points:
        yield f"{sentence(reason_for_none(lines))}.\n"
        return
    yield about_line(lines) + "\n"
    for panel in dict.fromkeys(point.panel for point in points):
        if panel:
            yield f"### {scenario.title}: {panel}\n"
        yield from table_lines([point for point in points if point.panel == panel], scenario.x_label)
        yield ""
    if scenario.name == "fault-latency":
        yield "### Stages\n\nHistograms have buckets of powers of two: read the limits as \"at most\".\n"
        yield from stage_lines(points)
        yield ""
    yield from remark_lines(lines)


def introduction(page):
    """What the page is, and how it was measured."""
    if page.notes:
        yield wrap("`make bench` measures everything below and writes this page from the raw results in "
                   "`bench/results/`; `make bench-quick` does the same on small data, in under 15 minutes, for a "
                   "report of its own.") + "\n"
    else:
        yield wrap("The report of a quick run: it shows that everything runs. Its data is small, and what takes too "
                   "long is cut: `make bench` measures what the figures mean.") + "\n"
    yield wrap("Every number is a measurement of this project's own programs on the machine named here. Systems take "
               "turns, the page cache is dropped before each run, and where data is larger than memory Tiermap and "
               "mmap have the same memory limit (a control group), in which page cache counts: Tiermap's budget is the "
               "limit less what the program keeps beside its pages, such as the state of a search, 14 MiB and 1/128 of "
               "the data (24 MiB in runs before 2026-11-23). Plain memory and `fio`, which show what is possible, have "
               "no limit, and Spark has four times Tiermap's. "
               f"Everything that was measured is in [the tables]({page.tables.name}).") + "\n"


def write(results, path, notes=NOTES, draw=True):
    """Writes the page, its tables and, if asked to, its plots. Returns the names of all plots that the pages show."""
    page = Page(results, path, notes, draw)
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = [f"# Benchmarks: tables\n\nEverything behind [the benchmarks]({path.name}): the median, the least and the "
              "most of all runs.\n\"Read\" is what the process read from the disk, in the last run; \"peak memory\" is "
              "the group's, page cache included.\n"]
    for scenario in SCENARIOS.values():
        tables += scenario_lines(page, scenario)
    lines = ["# Benchmarks\n", *introduction(page), *machines_of(results), "## Figures to reach\n",
             *aim_lines(page), "## Wins and losses\n",
             wrap("Medians; above 1 Tiermap is ahead. The rival is the best of its kind. What is below 1 is a loss, "
                  "unless the aim of the scenario allows it; what is ahead, and was to be further ahead, is short of "
                  "the aim.") + "\n",
             *comparison_lines(page), "", "## The papers' figures\n",
             wrap("Each plot mirrors one figure or table of a paper, on this machine and at its sizes: the papers' "
                  "machines had up to 48 processors, 256 GB to 1 TB of memory and data of 67 to 530 GB. Where a "
                  "paper's text gives a number, it is drawn beside ours; what is only in its pictures was not read off "
                  "them.") + "\n",
             *figure_lines(page), "## Beside the papers\n", *engine_lines(page)]
    for note in sorted(notes.glob("*.md")) if notes else ():
        lines += [note.read_text().strip(), ""]
    path.write_text("\n".join(lines))
    page.tables.write_text("\n".join(tables))
    return page.drawn
