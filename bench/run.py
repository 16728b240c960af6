#!/usr/bin/env python3
"""`make bench`: measures every scenario into bench/results/, and writes docs/benchmarks.md and its plots from there.

Runs are interleaved (each case once, then all again), the page cache is dropped before each, and all systems have the
same memory limit. `--quick` uses small data and less than 15 minutes, and writes below build/bench/quick only.
"""
import argparse
import os
import pathlib
import sys

import aims
import benchmarks_page
import plots
from cases import Bench
from measurement import GIB, Interrupted, scratch_folder, unwind_on_signals
from memory_limit import limit_reason
from peers import BadPeer, Peer
from results import ResultFolder
from runner import Clock, Progress, ScenarioRun, commit_of
from scenarios import SCENARIOS

# What a quick run may take in all, drawing included: less than 15 minutes.
QUICK_SECONDS = 820


def chosen_names(options):
    """The scenarios to be measured, in their order."""
    wanted = options.only or ({aim.scenario for aim in aims.FIGURES} if options.aims else SCENARIOS)
    return [name for name in SCENARIOS if name in wanted]


def measure(options, store):
    """Runs the chosen scenarios. Returns the names of those that had a problem."""
    chosen = [SCENARIOS[name] for name in chosen_names(options)]
    progress = Progress([scenario.name for scenario in chosen], options.seconds)
    problems = []
    clock = Clock(chosen, options.seconds)
    commit = commit_of(options.root)
    needed = {"quick": 4, "aims": 8, "short": 12, "full": 40}[options.detail] * GIB
    with scratch_folder(options.scratch or options.root / "build/bench", needed) as scratch:
        bench = Bench(options.bin.resolve(), scratch, options.detail, limit_reason())
        bench.repetitions = options.repetitions
        if bench.limit_problem:
            progress.say(f"mmap is left out: it cannot be held to a limit: {bench.limit_problem}")
        for scenario in chosen:
            progress.begin(scenario.name)
            keep = store.read(scenario.name) if options.carry_on else ()
            if ScenarioRun(scenario, bench, store, progress, options.peer, commit, clock, keep).run():
                problems.append(scenario.name)
    return problems


def render(options, store):
    """Writes the pages; returns where."""
    page = (options.output / "report.md") if options.quick else options.root / "docs/benchmarks.md"
    results = {name: store.read(name) for name in store.scenarios()}
    # Notes are about the committed results.
    drawn = benchmarks_page.write(results, page, notes=None if options.quick else benchmarks_page.NOTES)
    if drawn and not plots.have_matplotlib():
        print("The plots were not drawn: python3-matplotlib is not installed", file=sys.stderr)
    elif not options.quick:
        # Pictures of what is no longer measured.
        for picture in (page.parent / "figures").glob("*.png"):
            if picture.name not in drawn:
                picture.unlink()
    return page


def peer_option(text):
    try:
        return Peer.parse(text)
    except BadPeer as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def parse(root):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin", help="where the programs are")
    parser.add_argument("--output", type=pathlib.Path, help="where results go (default: bench/results, or with --quick "
                        "build/bench/quick)")
    parser.add_argument("--scratch", type=pathlib.Path, help="where the data goes (default: build/bench)")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="measure only this (repeatable)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="small data, less than 15 minutes, a report of its own")
    size.add_argument("--aims", action="store_true", help="512 MiB, and of each scenario only what the aims are read "
                      "off, without the scenarios that only throughput over threads is read off: the better part of an "
                      "hour")
    size.add_argument("--short", action="store_true", help="1 GiB and fewer points: two or three hours")
    parser.add_argument("--seconds", type=float, help="time for all scenarios together; each is cut at its share "
                        f"(default: {QUICK_SECONDS} with --quick, else none)")
    parser.add_argument("--repetitions", type=int, default=3, help="runs of each case")
    parser.add_argument("--peer", action="append", type=peer_option, default=[], metavar="NAME=COMMAND",
                        help="one more system: a command that takes the same arguments and prints the same JSON; "
                        "{program} in it becomes sort, bfs, ... (repeatable)")
    parser.add_argument("--continue", dest="carry_on", action="store_true", help="keep the runs that an interrupted "
                        "measurement left, and make those that are missing")
    parser.add_argument("--render", action="store_true", help="write the pages from the results that are there")
    parser.add_argument("--list", action="store_true", help="say what would be measured, and end")
    options = parser.parse_args()
    options.root = root
    options.detail = next((name for name in ("quick", "aims", "short") if getattr(options, name)), "full")
    options.output = options.output or (root / "build/bench/quick" if options.quick else root / "bench/results")
    options.seconds = options.seconds or (QUICK_SECONDS if options.quick else None)
    names = [peer.name for peer in options.peer]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        parser.error(f"two peers are called {twice}, and their runs would be one's: give them different names")
    if options.repetitions < 1:
        parser.error(f"{options.repetitions} repetitions are none: choose 1 or more")
    return options


def show_list(options):
    """Every scenario and how many cases it has."""
    bench = Bench(options.bin, "SCRATCH", options.detail, dry=True)
    for name in chosen_names(options):
        print(f"{name}: {SCENARIOS[name].title}, {len(SCENARIOS[name].cases(bench))} cases, {options.repetitions} runs "
              "each")


def main(root=pathlib.Path(__file__).resolve().parent.parent):
    options = parse(root)
    if options.list:
        try:
            show_list(options)
            sys.stdout.flush()
        except BrokenPipeError:
            # Who reads has seen enough. What is left is not for the flush at the end either.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    store = ResultFolder(options.output)
    unwind_on_signals()
    problems, interrupted = [], None
    if not options.render:
        try:
            problems = measure(options, store)
        except Interrupted as interruption:
            interrupted = interruption
    page = render(options, store)
    if interrupted:
        print(f"\nended by {interrupted}: what was measured is in {options.output}, and in {page}; --continue makes "
              "the runs that are missing", file=sys.stderr)
        return 130
    print(f"{page} is written from {options.output}" + (f"; problems: {', '.join(problems)}" if problems else ""))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
