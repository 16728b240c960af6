#!/usr/bin/env python3
"""Dask's workers, processes of their own, read one array on a memory server: each opens it by its URL, and reads the
blocks that it is given.

    tiermap serve --listen 127.0.0.1:7070 --memory 1GiB &
    python remote_dask.py remote://127.0.0.1:7070/roots
"""

import os
import sys

import dask
import dask.array
import numpy as np

import tiermap


def process_of(block):
    return np.array([[os.getpid()]])


def fill(url, rows, columns):
    """Who writes is alone: the array is given up before others open it."""
    array = tiermap.map(url, np.float64, (rows, columns), mode="w+", budget="4MiB")
    array[:] = np.sqrt(np.arange(rows, dtype=np.float64))[:, None]
    array.sync()


def main():
    url, rows, columns, blocks = sys.argv[1], 40_000, 16, 8
    fill(url, rows, columns)
    # Not copied into the graph: what travels to a worker is the URL, the slice, and how to map it.
    array = tiermap.map(url, np.float64, (rows, columns), budget="4MiB")
    chunks = dask.array.from_array(array, chunks=(rows // blocks, columns))
    with dask.config.set(scheduler="processes", num_workers=2):
        mean, readers = dask.compute(chunks.mean(), chunks.map_blocks(process_of, chunks=(1, 1), dtype=int))
    assert np.isclose(mean, np.sqrt(np.arange(rows)).mean())
    assert os.getpid() not in readers
    print(f"the mean of {blocks} blocks is {mean:.3f}, read by {len(set(readers.flat))} processes")


if __name__ == "__main__":
    main()
