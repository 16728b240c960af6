#!/usr/bin/env python3
"""Processes that fill an array together, and read it together: each maps it for itself, nothing is copied between them.

    python workers.py
"""

import multiprocessing
import os
import tempfile

import numpy as np

import tiermap


def fill(array, first, count):
    """Arrays that are sent arrive as names: this process maps the file again."""
    array[first:first + count] = np.sqrt(np.arange(first, first + count, dtype=np.float64))[:, None]


def mean(block):
    return float(block.mean())


def main():
    rows, step = 40_000, 5_000
    with tempfile.TemporaryDirectory() as folder:
        array = tiermap.map(os.path.join(folder, "roots.npy"), np.float64, (rows, 64), mode="w", budget="4MiB")
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            pool.starmap(fill, [(array, first, step) for first in range(0, rows, step)])
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            means = pool.map(mean, [array[first:first + step] for first in range(0, rows, step)])
        expected = np.sqrt(np.arange(rows)).reshape(-1, step).mean(axis=1)
        assert np.allclose(means, expected)
        print(f"{len(means)} blocks written and read by two processes each")


if __name__ == "__main__":
    main()
