"""The figures of docs/benchmarks.md, one for each scenario."""

COLOURS = {"tiermap": "#2a6f97", "mmap": "#bc6c25", "fio": "#6c757d", "pread": "#6c757d", "read": "#6c757d",
           "memory": "#606c38"}


def _colour(label):
    return next((colour for prefix, colour in COLOURS.items() if label.startswith(prefix)), "#999999")


def _error(row):
    summary = row["summary"]
    return [[summary["median"] - summary["min"]], [summary["max"] - summary["median"]]]


def _lines_by_threads(pyplot, scenario):
    """Reads a second over threads, a panel for each block size."""
    blocks = sorted({table["block"] for table in scenario["tables"]})
    figure, panels = pyplot.subplots(1, len(blocks), figsize=(6 * len(blocks), 4.4), squeeze=False)
    styles = ["-", "--", ":", "-."]
    for panel, block in zip(panels[0], blocks):
        series = {}
        for table in (table for table in scenario["tables"] if table["block"] == block):
            for row in table["rows"]:
                if row["summary"]:
                    series.setdefault(row["labels"][0], []).append((table["threads"], row))
        used = {}
        for name, points in series.items():
            colour = _colour(name)
            used[colour] = used.get(colour, -1) + 1
            panel.errorbar([threads for threads, _ in points], [row["summary"]["median"] for _, row in points],
                           yerr=[[_error(row)[side][0] for _, row in points] for side in (0, 1)], label=name,
                           color=colour, linestyle=styles[used[colour] % len(styles)], marker="o", markersize=3, capsize=3)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("threads")
        panel.set_ylabel("reads a second (more is better)")
        panel.set_title(block)
        panel.legend(fontsize=7)
    return figure


def _bars(pyplot, scenario):
    """A panel of horizontal bars for each table."""
    tables = [table for table in scenario["tables"] if any(row["summary"] for row in table["rows"])]
    if not tables:
        return None
    heights = [0.32 * len(table["rows"]) + 0.9 for table in tables]
    figure, panels = pyplot.subplots(len(tables), 1, figsize=(8, sum(heights)), squeeze=False,
                                     gridspec_kw={"height_ratios": heights})
    for panel, table in zip(panels[:, 0], tables):
        rows = [row for row in table["rows"] if row["summary"]]
        names = [", ".join([str(row["labels"][0]), *(f"{label} threads" for label in row["labels"][1:])]) for row in rows]
        scale = 1e6 if table["unit"] == "bytes/s" else 1
        for place, row in enumerate(rows):
            bar = panel.barh(place, row["summary"]["median"] / scale, color=_colour(row["labels"][0]),
                             xerr=[[value[0] / scale] for value in _error(row)], capsize=3)
            panel.bar_label(bar, fmt="%.3g", padding=4, fontsize=7)
        panel.set_yticks(range(len(rows)), names, fontsize=7)
        panel.invert_yaxis()
        unit = "MB/s" if table["unit"] == "bytes/s" else table["unit"]
        panel.set_xlabel(f"{unit} ({table['better']} is better)", fontsize=8)
        panel.set_title(table["title"], fontsize=9)
        panel.margins(x=0.12)
        panel.spines[["top", "right"]].set_visible(False)
    return figure


def draw(key, title, scenario, folder):
    """Draws a scenario into folder/KEY.png and returns the file's name; None if there is nothing to draw, or no
    matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot
    if not any(row["summary"] for table in scenario["tables"] for row in table["rows"]):
        return None
    figure = _lines_by_threads(pyplot, scenario) if key == "random-reads" else _bars(pyplot, scenario)
    if figure is None:
        return None
    figure.tight_layout()
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{key}.png", dpi=120)
    pyplot.close(figure)
    return f"{key}.png"
