"""What the demo shows at its end: a table for the terminal, a picture, and whether everything was right."""
from measurement import format_bytes

COLOURS = {"tiermap": "#2a6f97", "mmap": "#bc6c25", "mmap, with advice": "#dda15e", "mmap, turning": "#a3b18a"}


def describe_graph(made, done):
    """One line on the package graph."""
    vertices = made.get("vertices", done.get("vertices"))
    edges = made.get("edges", done.get("edges"))
    checked = "the same levels as in plain memory" if done.get("verified") else "NOT what plain memory says"
    return f"{vertices:,} packages, {edges:,} relations: {checked}, {done['seconds']:.3f} s"


def verdict(results):
    """Whether every run of a system was right, in a word."""
    failed = [result["failed"] for result in results if "failed" in result]
    if failed:
        return failed[0]
    return "yes" if all(result.get("verified") is True for result in results) else "NO"


def table(outcome):
    """Every job and system in a line each; the ratio is mmap's time over Tiermap's, medians of all runs."""
    lines = [f"{'job':<14} {'system':<18} {'data':>9} {'memory':>9} {'seconds':>8} {'least':>7} {'most':>7} {'runs':>4} "
             f"{'read':>9} {'ratio':>6}  verified"]
    for job in outcome["jobs"]:
        if job["job"] == "package graph":
            good = "yes" if job.get("verified") else job.get("failed", "NO")
            seconds = f"{job['seconds']:8.3f}" if "seconds" in job else f"{'-':>8}"
            lines.append(f"{'package graph':<14} {'tiermap':<18} {'':>9} {'16 MiB':>9} {seconds} {'':>7} {'':>7} {1:>4} "
                         f"{'':>9} {'':>6}  {good}")
            continue
        ours = job.get("seconds", {}).get("tiermap")
        for name, results in job.get("results", {}).items():
            times = job.get("seconds", {}).get(name)
            ratio = f"{times['median'] / ours['median']:.2f}" if ours and times and name != "tiermap" else ""
            numbers = (f"{times['median']:8.2f} {times['min']:7.2f} {times['max']:7.2f} {times['runs']:>4}" if times
                       else f"{'-':>8} {'-':>7} {'-':>7} {0:>4}")
            read = format_bytes(results[0]["read_bytes"]) if "read_bytes" in results[0] else ""
            lines.append(f"{job['job']:<14} {name:<18} {format_bytes(job['bytes']):>9} "
                         f"{format_bytes(job['limit_bytes']):>9} {numbers} {read:>9} {ratio:>6}  {verdict(results)}")
        if "failed" in job:
            lines.append(f"{job['job']:<14} failed: {job['failed']}")
    if outcome["no_limit"]:
        lines.append(f"Skipped: mmap (no memory limit can be set: {outcome['no_limit']}). "
                     "Tiermap kept to its budget by itself.")
    lines.append("ratio: mmap's median over Tiermap's; both under the same limit, page cache dropped before each run.")
    return "\n".join(lines)


def all_good(outcome):
    """Tiermap has to be right in every run; mmap may run out of time."""
    for job in outcome["jobs"]:
        if "failed" in job or (job["job"] == "package graph" and not job.get("verified")):
            return False
        for name, results in job.get("results", {}).items():
            if any(result.get("verified") is False for result in results):
                return False
            if name == "tiermap" and verdict(results) != "yes":
                return False
    return True


def plot(outcome, path):
    """Bars of seconds, a panel for each job. Says where it is, or why there is none."""
    jobs = [job for job in outcome["jobs"] if job.get("seconds") and "results" in job]
    if not jobs:
        return "No picture: nothing to compare"
    try:
        import matplotlib
    except ImportError:
        return "No picture: python3-matplotlib is not installed"
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, len(jobs), figsize=(4.6 * len(jobs), 3.8), squeeze=False)
    for panel, job in zip(panels[0], jobs):
        names = list(job["seconds"])
        medians = [job["seconds"][name]["median"] for name in names]
        below = [job["seconds"][name]["median"] - job["seconds"][name]["min"] for name in names]
        above = [job["seconds"][name]["max"] - job["seconds"][name]["median"] for name in names]
        bars = panel.bar(names, medians, yerr=[below, above], capsize=4, color=[COLOURS[name] for name in names])
        panel.bar_label(bars, fmt="%.1f s", padding=3)
        panel.margins(y=0.15)
        panel.set_title(f"{job['job']}: {format_bytes(job['bytes'])} in {format_bytes(job['limit_bytes'])}")
        panel.set_ylabel("seconds (less is better)")
        panel.spines[["top", "right"]].set_visible(False)
    machine = outcome["machine"]
    figure.suptitle(f"{machine['processor']}, {machine['cores']} cores, Linux {machine['kernel']}", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=140)
    return f"Picture: {path}"
