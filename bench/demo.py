#!/usr/bin/env python3
"""`make demo`: real jobs on data larger than the memory they may use, by Tiermap and by mmap, both under one limit.

First the Debian package graph of this machine, end to end, checked against a traversal in plain memory. Then a sort and
a breadth-first search of a generated graph, each with four times more data than memory, every result verified. Ends with
a table, a picture (demo.png) and the numbers (demo.json). What it writes on the way is given back, also on Ctrl-C.
"""
import argparse
import json
import os
import pathlib
import shutil
import sys
import time

import demo_report
from measurement import (GIB, MIB, Interrupted, format_bytes, interleaved, machine, option_bytes, run_json,
                         scratch_folder, summary, unwind_on_signals)
from memory_limit import limit_reason

# What a program needs beside the pages of its data: code, stacks, page tables, buffers. Measured as the group's peak
# less the budget; Tiermap's budget is the limit less this, so that both sides live in the same limit.
OVERHEAD = 24 * MIB
# What a search keeps for each vertex, on the heap, whoever pages the graph: its parent, two bits, and what checking adds.
BFS_VERTEX_BYTES = 16
DISK_NEEDED = 8 * GIB
PACKAGE_LISTS = pathlib.Path("/var/lib/apt/lists")
INSTALLED_PACKAGES = pathlib.Path("/var/lib/dpkg/status")


class Demo:
    """The options, the folder for data, and the clock that decides how often to repeat."""

    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.started = time.monotonic()
        self.no_limit = limit_reason()
        self.threads = os.cpu_count() or 2

    def program(self, name):
        return self.options.bin / name

    def elapsed(self):
        return time.monotonic() - self.started

    def run(self, command, limit, drop, label):
        return run_json(command, limit_bytes=None if self.no_limit else limit, drop=drop, label=label,
                        timeout=self.options.timeout)

    def compare(self, cases):
        """Runs the systems in turn: once, and again while the time allows, three times at most."""
        if self.no_limit:
            cases = {name: case for name, case in cases.items() if name == "tiermap"}
        began = self.elapsed()
        results = interleaved(cases, 1)
        round_seconds = self.elapsed() - began
        for _ in range(2):
            if self.elapsed() + round_seconds > self.options.seconds_for_job * self.job_number:
                break
            for name, more in interleaved({name: case for name, case in cases.items()
                                           if "failed" not in results[name][0]}, 1).items():
                results[name] += more
        return results

    job_number = 0


def show(text):
    print(text, flush=True)


def package_graph(demo):
    """The Debian package graph: read as text, built out of core, traversed, compared with plain memory."""
    show("1. The Debian package graph of this machine")
    edges = demo.scratch / "packages.txt"
    lists = PACKAGE_LISTS
    if not any(lists.glob("*_Packages*")):
        show("   no package lists (apt-get update fetches them): the installed packages instead")
        lists = demo.scratch / "lists"
        lists.mkdir()
        (lists / "installed_Packages").symlink_to(INSTALLED_PACKAGES)
    made = run_json([demo.program("tiermap-debian-graph"), "--lists", lists, "--output", edges, "--json"],
                    label="reading the package lists")
    if "failed" in made:
        return {"job": "package graph", "failed": made["failed"]}
    done = run_json([demo.program("tiermap-bfs"), "--input", edges, "--budget", "16MiB", "--page-size", "64KiB",
                     "--check-in-memory", "--json"], label="building and traversing")
    done["job"] = "package graph"
    done["made"] = made
    if "failed" not in done:
        show(f"   {demo_report.describe_graph(made, done)}")
    return done


def sort(demo):
    size, limit = demo.options.sort_bytes, demo.options.sort_bytes // 4
    show(f"2. Sort {format_bytes(size)} of 64-bit words in {format_bytes(limit)} of memory")

    def case(system, *options):
        file = demo.scratch / "words"
        command = [demo.program("tiermap-sort"), "--system", system, "--file", file, "--bytes", option_bytes(size),
                   "--budget", option_bytes(limit - OVERHEAD), "--threads", demo.threads, "--json", *options]

        def run():
            # Each run makes its input anew from the same seed; the file is the program's own, unless it was killed.
            file.unlink(missing_ok=True)
            return demo.run(command, limit, [], f"sort by {' '.join([system, *options])}")
        return run

    # No advice serves mmap better than sequential, here or in the search: see docs/benchmarks.md.
    return {"job": "sort", "bytes": size, "limit_bytes": limit, "results": demo.compare({
        "tiermap": case("tiermap"),
        "mmap": case("mmap", "--prefetch", "off"),
        "mmap, with advice": case("mmap", "--madvise", "sequential")})}


def breadth_first_search(demo):
    scale = demo.options.scale
    graph = demo.scratch / "graph"
    show(f"3. Breadth-first search of an R-MAT graph of 2^{scale} vertices, a quarter of it in memory (and beside that 16 bytes a vertex)")
    built = run_json([demo.program("tiermap-bfs"), "--scale", scale, "--edge-factor", demo.options.edge_factor, "--graph",
                      graph, "--build-only", "--budget", "1GiB", "--json"], label="generating and building the graph")
    if "failed" in built:
        return {"job": "bfs", "failed": built["failed"]}
    size = sum(file.stat().st_size for file in demo.scratch.iterdir() if file.name.startswith("graph"))
    pages = size // 4 // MIB * MIB
    limit = pages + (BFS_VERTEX_BYTES << scale)

    def case(system, *options):
        command = [demo.program("tiermap-bfs"), "--system", system, "--graph", graph, "--roots", 2, "--budget",
                   option_bytes(pages - OVERHEAD), "--threads", demo.threads, "--json", *options]
        return lambda: demo.run(command, limit, [demo.scratch], f"search by {' '.join([system, *options])}")

    return {"job": "bfs", "bytes": size, "limit_bytes": limit, "scale": scale, "results": demo.compare({
        "tiermap": case("tiermap", "--page-size", "1MiB", "--fault-mode", "self-serving", "--scan", "alternate"),
        "mmap": case("mmap", "--prefetch", "off"),
        "mmap, with advice": case("mmap", "--madvise", "sequential"),
        "mmap, turning": case("mmap", "--madvise", "sequential", "--scan", "alternate")})}


def run_demo(options, scratch):
    demo = Demo(options, scratch)
    show(f"Tiermap's demo on {machine()['processor']}, {demo.threads} cores, Linux {os.uname().release}")
    if demo.no_limit:
        show(f"Skipped: the mmap side, because it cannot be held to a limit: {demo.no_limit}")
    jobs = []
    for number, job in enumerate((package_graph, sort, breadth_first_search), start=1):
        demo.job_number = number
        outcome = job(demo)
        if "failed" in outcome:
            show(f"   failed: {outcome['failed']}")
        jobs.append(outcome)
        for left in scratch.iterdir():
            if left.is_dir():
                shutil.rmtree(left)
            else:
                left.unlink()
    for job in jobs:
        for name, results in job.get("results", {}).items():
            good = [result for result in results if "failed" not in result]
            if good:
                job.setdefault("seconds", {})[name] = summary([result["seconds"] for result in good])
    return {"machine": machine(), "no_limit": demo.no_limit, "wall_seconds": demo.elapsed(), "jobs": jobs}


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=here / "build/release/bin", help="where the programs are")
    parser.add_argument("--output", type=pathlib.Path, default=here / "build/demo", help="where the results go")
    parser.add_argument("--scratch", type=pathlib.Path, help="where the data goes (default: the output folder)")
    parser.add_argument("--sort-bytes", type=int, default=GIB, help="bytes to sort")
    parser.add_argument("--scale", type=int, default=21, help="the graph has 2^scale vertices")
    parser.add_argument("--edge-factor", type=int, default=32, help="edges of the graph for each vertex")
    parser.add_argument("--timeout", type=int, default=120, help="seconds after which a run is stopped")
    parser.add_argument("--seconds-for-job", type=int, default=80, help="no repetition starts that would end after this")
    options = parser.parse_args()
    if options.scale < 20 or options.sort_bytes < 256 * MIB:
        parser.error("too small to show anything: choose a scale of 20 or more and 256 MiB or more to sort")
    options.bin = options.bin.resolve()
    if not (options.bin / "tiermap-sort").exists():
        parser.error(f"there are no programs in {options.bin}: run make build, or name their folder with --bin")
    if options.scratch and not options.scratch.is_dir():
        parser.error(f"{options.scratch} is no folder: make it, or leave --scratch out")
    options.output.mkdir(parents=True, exist_ok=True)
    unwind_on_signals()
    try:
        with scratch_folder(options.scratch or options.output, DISK_NEEDED) as scratch:
            outcome = run_demo(options, scratch)
    except Interrupted as interruption:
        print(f"\nended by {interruption}: the disk space is given back", file=sys.stderr)
        return 130
    (options.output / "demo.json").write_text(json.dumps(outcome, indent=1) + "\n")
    show("")
    show(demo_report.table(outcome))
    picture = demo_report.plot(outcome, options.output / "demo.png")
    show(f"{picture}. Numbers: {options.output / 'demo.json'}. All in {outcome['wall_seconds']:.0f} s.")
    return 0 if demo_report.all_good(outcome) else 1


if __name__ == "__main__":
    sys.exit(main())
