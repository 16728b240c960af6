"""The plots of the page: for each figure of a paper, and each scenario that mirrors none, one picture.

A picture holds the checksum of the lines that it was drawn from, so that a test can tell without drawing whether it is
the picture of these results.
"""
import hashlib
import json
import struct
import zlib

from aims import place
from comparison import ratio_of
from results import advantage, best, better_of, points_of, unit_of

COLOURS = {"tiermap": ("#1d4e79", "#2a6f97", "#61a5c2", "#014f86", "#89c2d9"), "mmap": ("#bc6c25",),
           "mmap unlimited": ("#dda15e",), "memory": ("#606c38",), "direct": ("#6c757d", "#adb5bd"),
           "fio": ("#343a40",), "spark": ("#e85d04",), "ucx": ("#343a40",), "mpi": ("#343a40",)}
PEER_COLOURS = ("#7b2d8b", "#b5179e", "#c9184a")
PAPER = "#d62828"
KEYWORD = "tiermap-results"


def have_matplotlib():
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def checksum(lines, figure):
    """Of what is drawn. The version of what draws is in it, too: raise it when a picture is to look otherwise."""
    drawn = [[line.get(key) for key in ("panel", "series", "system", "x", "metric", "value")] for line in lines
             if line["kind"] == "run"]
    return hashlib.sha256(json.dumps([1, repr(figure), drawn]).encode()).hexdigest()[:32]


def checksum_in(path):
    """The checksum that a picture holds, None if it has none."""
    data = path.read_bytes()
    at = 8
    while at + 8 <= len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"tEXt":
            keyword, _, text = data[at + 8:at + 8 + length].partition(b"\0")
            if keyword.decode() == KEYWORD:
                return text.decode()
        if zlib.crc32(data[at + 4:at + 8 + length]) != struct.unpack(">I", data[at + 8 + length:at + 12 + length])[0]:
            return None
        at += 12 + length
    return None


class Colours:
    """A colour for each series, by its system."""

    def __init__(self):
        self.used = {}

    def of(self, point):
        if (point.system, point.series) not in self.used:
            count = sum(1 for system, _ in self.used if system == point.system)
            colours = COLOURS.get(point.system)
            if colours is None:
                # Peers have a colour each.
                known = list(dict.fromkeys(system for system, _ in self.used if system not in COLOURS))
                count = known.index(point.system) if point.system in known else len(known)
                colours = PEER_COLOURS
            self.used[point.system, point.series] = colours[count % len(colours)]
        return self.used[point.system, point.series]


def scale_of(unit):
    """A unit in a size that a reader wants, and by how much it is divided."""
    return ("MB/s", 1e6) if unit == "bytes/s" else (unit, 1)


def curves(points):
    """What is drawn of a panel: every series but mmap's, and mmap's best at each x. Yields (name, colour's point,
    [(x, Point)])."""
    series = {}
    for point in points:
        if point.good and point.system != "mmap":
            series.setdefault((point.system, point.series), []).append((point.x, point))
    for (_, name), places in series.items():
        yield name, places[0][1], places
    places = sorted({point.x for point in points if point.good and point.x is not None})
    if any(point.system == "mmap" and point.x is None for point in points):
        places = [None]
    found = [(x, best(points, "mmap", x=x) if x is not None else best(points, "mmap")) for x in places]
    found = [(x, point) for x, point in found if point]
    if found:
        names = sorted({point.series.removeprefix("mmap").strip(" ,") for _, point in found})
        yield f"mmap, best of its settings ({'; '.join(names)})", found[0][1], found


def draw_panel(panel, points, title, x_label, relative):
    """Lines over x; bars where there is nothing to go over."""
    places = {point.x for point in points if point.good and point.x is not None}
    metric = points[0].metric
    # Without mmap (where no limit can be set) there is nothing to be relative to.
    relative = relative and best(points, "mmap") is not None
    unit, scale = scale_of(unit_of(metric))
    panel.set_title(title, fontsize=9)
    panel.tick_params(labelsize=7)
    panel.spines[["top", "right"]].set_visible(False)
    if len(places) < 2:
        draw_bars(panel, points, unit, scale, better_of(metric))
        return
    colours = Colours()
    sizes = "page size" in x_label
    for name, first, found in curves(points):
        values = [value_at(point, points, x, relative, scale) for x, point in found]
        kept = [(x, value) for (x, _), value in zip(found, values) if value]
        style = {"color": colours.of(first), "label": name, "linewidth": 1.4}
        if kept and all(x is None for x, _ in kept):
            panel.axhline(min(value[0] for _, value in kept) if better_of(metric) == "less" else
                          max(value[0] for _, value in kept), linestyle="--", **style)
        elif kept:
            kept = sorted((x, value) for x, value in kept if x is not None)
            panel.errorbar([x for x, _ in kept], [value[0] for _, value in kept],
                           yerr=[[value[side] for _, value in kept] for side in (1, 2)], marker="o", markersize=3,
                           capsize=2, linestyle="--" if first.system == "mmap" else "-", **style)
    if sizes or x_label == "threads":
        panel.set_xscale("log", base=2)
    ordered = sorted(places)
    panel.set_xticks(ordered, [place(x) if sizes else f"{x:g}" for x in ordered], fontsize=7)
    panel.minorticks_off()
    panel.set_xlabel(x_label, fontsize=8)
    panel.set_ylabel("times the best mmap" if relative else f"{unit} ({better_of(metric)} is better)", fontsize=8)
    panel.set_ylim(bottom=0)
    if panel.get_legend_handles_labels()[0]:
        panel.legend(fontsize=6)


def value_at(point, points, x, relative, scale):
    """(value, distance to the least, distance to the most) as drawn."""
    if relative:
        rival = best(points, "mmap", x=x) if x is not None else best(points, "mmap")
        value = advantage(point, rival) if rival else None
        return (value, 0, 0) if value else None
    return (point.median / scale, *distances(point, scale))


def distances(point, scale):
    """From the median to the least and to the most."""
    return (point.median - min(point.values)) / scale, (max(point.values) - point.median) / scale


def draw_bars(panel, points, unit, scale, better):
    good = [point for point in points if point.good]
    colours = Colours()
    for row, point in enumerate(good):
        bar = panel.barh(row, point.median / scale, color=colours.of(point), capsize=3,
                         xerr=[[distance] for distance in distances(point, scale)])
        panel.bar_label(bar, fmt="%.3g", padding=4, fontsize=6)
    panel.set_yticks(range(len(good)), [point.series if point.x is None else f"{point.series} ({place(point.x)})"
                                        for point in good], fontsize=6)
    panel.invert_yaxis()
    panel.margins(x=0.15)
    panel.set_xlabel(f"{unit} ({better} is better)", fontsize=8)


def draw_values(panel, values, found):
    """The ratios that the paper's text gives, and ours beside them."""
    for row, (value, ours) in enumerate(zip(values, found)):
        label = "the paper" if row == 0 else None
        panel.barh(row - 0.2, value.paper_to or value.paper, height=0.36, color="white", edgecolor=PAPER, hatch="//",
                   label=label)
        text = f"{value.paper:g} to {value.paper_to:g}" if value.paper_to else f"{value.paper:.2f}"
        panel.text(value.paper_to or value.paper, row - 0.2, f" {text}", va="center", fontsize=7)
        panel.barh(row + 0.2, ours.value if ours else 0, height=0.36, color=COLOURS["tiermap"][1],
                   label="Tiermap" if row == 0 else None)
        panel.text(ours.value if ours else 0, row + 0.2, f" {ours.value:.2f}" if ours else " not measured", va="center",
                   fontsize=7)
    panel.axvline(1, color="black", linewidth=0.6)
    panel.tick_params(labelsize=7)
    panel.set_yticks(range(len(values)), [wrapped(value.text) for value in values], fontsize=6)
    panel.invert_yaxis()
    panel.margins(x=0.2)
    panel.set_title("times as good", fontsize=9)
    panel.legend(fontsize=6)
    panel.spines[["top", "right"]].set_visible(False)


def wrapped(text, columns=26):
    lines = [""]
    for word in text.split():
        lines = [*lines[:-1], f"{lines[-1]} {word}".strip()] if len(lines[-1]) + len(word) < columns else [*lines, word]
    return "\n".join(lines)


def panels_of(lines, figure):
    """(title, points) of each panel that has anything to show."""
    found = []
    for metric in (figure.metrics if figure and figure.metrics else (None,)):
        points = points_of(lines, metric)
        wanted = figure.panels if figure and figure.panels else dict.fromkeys(point.panel for point in points)
        for name in wanted:
            inside = [point for point in points if point.panel == name]
            if any(point.good for point in inside):
                found.append((" ".join(filter(None, (name, (metric or "").replace("_", " ")))), inside))
    return found


def draw(path, lines, x_label, title, figure=None):
    """Draws one picture. Returns whether there was anything to draw; without matplotlib nothing is written."""
    panels = panels_of(lines, figure)
    if not panels:
        return False
    if not have_matplotlib():
        return True
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    values = figure.values if figure else ()
    count = len(panels) + bool(values)
    columns = min(count, 3)
    rows = -(-count // columns)
    longest = max((len(inside) for _, inside in panels if len({point.x for point in inside} - {None}) < 2), default=0)
    height = max(3.4, 0.22 * longest + 1, 0.5 * len(values) + 1)
    sheet, places = pyplot.subplots(rows, columns, figsize=(4.6 * columns, height * rows), squeeze=False)
    places = list(places.flat)
    for panel, (name, points) in zip(places, panels):
        draw_panel(panel, points, name, x_label, bool(figure and figure.relative))
    if values:
        draw_values(places[len(panels)], values, [ratio_of(lines, value.ours) for value in values])
    for panel in places[count:]:
        panel.set_visible(False)
    sheet.suptitle(title, fontsize=10)
    sheet.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    # No version of matplotlib, no date: the same results give the same file on the same machine.
    sheet.savefig(path, dpi=110, metadata={"Software": None, KEYWORD: checksum(lines, figure)})
    pyplot.close(sheet)
    return True
