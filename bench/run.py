#!/usr/bin/env python3
"""`make bench`: measures every scenario and rewrites docs/benchmarks.md with its figures.

Runs are interleaved (each system once, then all again), the page cache is dropped before each, and all systems have the
same memory limit. `--quick` uses small sizes and writes below build/bench only. `--only NAME` measures one scenario anew
and keeps the results of the others; `--render` measures nothing and writes the page again.
"""
import argparse
import json
import pathlib
import sys
import time

import benchmarks_page
from measurement import GIB, Interrupted, machine, scratch_folder, unwind_on_signals
from memory_limit import limit_reason
from scenarios import SCENARIOS, Bench


def measure(options, results, results_path):
    """Runs the chosen scenarios and keeps each result as soon as it is there."""
    with scratch_folder(options.scratch or options.output, (3 if options.quick else 12) * GIB) as scratch:
        for name in options.only or SCENARIOS:
            bench = Bench(options.bin.resolve(), scratch, options.detail, limit_reason())
            print(f"{name}:", file=sys.stderr)
            started = time.monotonic()
            try:
                tables, problem = SCENARIOS[name](bench), None
            except RuntimeError as error:
                tables, problem = [], str(error)
            for file in scratch.iterdir():
                file.unlink()
            results["scenarios"][name] = {"tables": tables, "skipped": bench.skipped, "problem": problem,
                                          "repetitions": bench.repetitions, "data_bytes": bench.data_bytes,
                                          "machine": machine()}
            results_path.write_text(json.dumps(results, indent=1) + "\n")
            print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=root / "build/release/bin", help="where the programs are")
    parser.add_argument("--output", type=pathlib.Path, default=root / "build/bench", help="where results.json goes")
    parser.add_argument("--scratch", type=pathlib.Path, help="where the data goes (default: the output folder)")
    parser.add_argument("--only", action="append", choices=list(SCENARIOS), help="measure only this (repeatable)")
    parser.add_argument("--quick", action="store_true", help="small sizes; the page goes to the output folder")
    parser.add_argument("--short", action="store_true", help="medians of three on 1 GiB and fewer points: half an hour")
    parser.add_argument("--render", action="store_true", help="write the page from the results that are there")
    options = parser.parse_args()
    options.detail = "quick" if options.quick else "short" if options.short else "full"
    options.output.mkdir(parents=True, exist_ok=True)
    results_path = options.output / ("results-quick.json" if options.quick else "results.json")
    results = json.loads(results_path.read_text()) if results_path.exists() else {"scenarios": {}}
    unwind_on_signals()
    if not options.render:
        try:
            measure(options, results, results_path)
        except Interrupted as interruption:
            print(f"\nended by {interruption}: the disk space is given back; scenarios that were finished are in "
                  f"{results_path}", file=sys.stderr)
            return 130
    page = (options.output if options.quick else root / "docs") / "benchmarks.md"
    benchmarks_page.write(results, page)
    print(f"{page} is written from {results_path}")
    return 1 if any(scenario["problem"] for scenario in results["scenarios"].values()) else 0


if __name__ == "__main__":
    sys.exit(main())
