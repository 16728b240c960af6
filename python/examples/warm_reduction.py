#!/usr/bin/env python3
"""A reduction over an array that fits in the budget, once it is in memory: beside the same on a plain array.

    python warm_reduction.py --data /data/numbers.npy
"""

import argparse
import json
import pathlib
import statistics
import time

import numpy as np

import tiermap

MIB = 1 << 20


def timed(array, repeats):
    """Milliseconds of each of some sums."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        array.sum()
        times.append((time.perf_counter() - started) * 1000)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("numbers.npy"),
                        help="made, and removed at the end")
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    options = parser.parse_args()
    if options.data.exists():
        parser.error(f"{options.data} exists, and would be replaced and removed: name another with --data")
    values = np.random.default_rng(0).random(options.mebibytes * MIB // 8)
    np.save(options.data, values)
    try:
        with tiermap.Cache(2 * options.mebibytes * MIB) as cache:
            mapped = cache.map(options.data)
            assert mapped.sum() == values.sum()
            plain_times, mapped_times = [], []
            for _ in range(options.rounds):
                plain_times += timed(values, 1)
                mapped_times += timed(mapped, 1)
            plain, warm = statistics.median(plain_times), statistics.median(mapped_times)
            if options.json:
                print(json.dumps({"plain_seconds": plain / 1000, "mapped_seconds": warm / 1000}))
                return
            print(f"sum of {options.mebibytes} MiB: plain {plain:.2f} ms, mapped {warm:.2f} ms, "
                  f"{(warm / plain - 1) * 100:+.1f} %")
    finally:
        options.data.unlink()


if __name__ == "__main__":
    main()
