#!/usr/bin/env python3
"""Random rows of a file that is larger than memory: numpy.memmap beside tiermap.memmap, under one memory limit.

    sudo "$(command -v python)" row_gather.py --data /data/rows.bin

makes the file (1 GiB), and runs the same loop in a control group that has a quarter of it: batches of random rows are
picked and summed for some seconds. numpy runs as it comes, and with each madvise() that could help; tiermap with one
import line changed. It prints rows a second, the median of the rounds, and what each read from the disk.
"""

import argparse
import importlib
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
from memory_limit import LimitUnavailable, MemoryLimit  # noqa: E402
from measurement import drop_file_cache  # noqa: E402

MIB = 1 << 20
#: The interpreter, numpy and the batch: beside the data, the same for all.
PROGRAM_BYTES = 96 * MIB
SYSTEMS = {
    "numpy, as it comes": ("numpy", None),
    "numpy, MADV_RANDOM": ("numpy", "MADV_RANDOM"),
    "numpy, MADV_SEQUENTIAL": ("numpy", "MADV_SEQUENTIAL"),
    "tiermap": ("tiermap", None),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("rows.bin"),
                        help="made if it does not exist, and removed at the end then")
    parser.add_argument("--mebibytes", type=int, default=1024)
    parser.add_argument("--row-bytes", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=256, help="rows picked at once")
    parser.add_argument("--ratio", type=float, default=4, help="size of the data over memory for it")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--page-size", default="auto")
    parser.add_argument("--only", help="systems whose names contain this")
    parser.add_argument("--keep", action="store_true", help="leave the file that was made")
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")
    parser.add_argument("--make", action="store_true", help="make the file, and end")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args()


def make(path, mebibytes, row_bytes):
    """Rows of float32 of which each begins with its number. Whether they were not there."""
    rows = mebibytes * MIB // row_bytes
    if path.exists():
        if path.stat().st_size != rows * row_bytes:
            sys.exit(f"{path} exists, and has not the {rows * row_bytes} bytes of these rows: remove it, or name "
                     "another with --data")
        return False
    columns = row_bytes // 4
    with open(path, "wb") as file:
        for first in range(0, rows, 4096):
            block = np.ones((min(4096, rows - first), columns), np.float32)
            block[:, 0] = np.arange(first, first + len(block))
            file.write(block.tobytes())
        file.flush()
        os.fsync(file.fileno())
    return True


def work(options, module, advice):
    """The loop: what a program on numpy.memmap does. One line of it differs."""
    memmap = importlib.import_module(module).memmap  # from numpy import memmap -> from tiermap import memmap
    rows = options.mebibytes * MIB // options.row_bytes
    special = {} if module == "numpy" else {"page_size": options.page_size}
    array = memmap(options.data, dtype=np.float32, mode="r", shape=(rows, options.row_bytes // 4), **special)
    if advice != "None":
        array._mmap.madvise(getattr(mmap, advice))
    random = np.random.default_rng(7)

    def go_on(seconds):
        done, started = 0, time.monotonic()
        while time.monotonic() - started < seconds:
            picked = random.integers(0, rows, options.batch)
            batch = array[picked]
            assert np.array_equal(batch[:, 0], picked.astype(np.float32))
            done += len(batch)
        return done / (time.monotonic() - started)

    go_on(options.seconds / 2)  # Until memory is full.
    print(json.dumps({"rows_per_second": go_on(options.seconds)}))


def run(options, name):
    """One round of one system, under the limit."""
    drop_file_cache(options.data)
    budget = int(options.mebibytes * MIB / options.ratio)
    module, advice = SYSTEMS[name]
    command = [sys.executable, __file__, "--data", options.data, "--mebibytes", options.mebibytes, "--row-bytes",
               options.row_bytes, "--batch", options.batch, "--seconds", options.seconds, "--page-size",
               options.page_size, "--worker", module, advice]
    with MemoryLimit(budget + PROGRAM_BYTES) as limit:
        process = limit.start(command, stdout=subprocess.PIPE,
                              env={**os.environ, "TIERMAP_BUFFER_SIZE": str(budget), "OPENBLAS_NUM_THREADS": "1"})
        said = process.stdout.read()
        if process.wait() != 0:
            sys.exit(f"{name}: ended with {process.returncode}")
    return json.loads(said)["rows_per_second"]


def main():
    options = arguments()
    if options.worker:
        work(options, *options.worker)
        return
    made = make(options.data, options.mebibytes, options.row_bytes)
    if options.make:
        print("{}")
        return
    names = [name for name in SYSTEMS if not options.only or options.only in name]
    results = {name: [] for name in names}
    try:
        for _ in range(options.rounds):
            for name in names:
                results[name].append(run(options, name))
    except LimitUnavailable as reason:
        sys.exit(f"no memory limit can be set here: {reason}")
    finally:
        if made and not options.keep:
            options.data.unlink()
    if options.json:
        print(json.dumps(results))
        return
    print(f"{options.mebibytes} MiB in rows of {options.row_bytes} bytes, {options.batch} at once, "
          f"memory for 1/{options.ratio:g}")
    for name, rates in results.items():
        print(f"  {name:24} {statistics.median(rates):10,.0f} rows/s   ({', '.join(f'{rate:,.0f}' for rate in rates)})")


if __name__ == "__main__":
    main()
