#!/usr/bin/env python3
"""Packaged programs under a memory limit, as they are and through `tiermap run`, timed; and with room for everything.

unmodified_programs.py [OPTIONS] [CASE...]: prints a table, of all cases if none is named. Runs of both
sides take turns, each begins with a cold page cache for its files; the median counts. What a program prints is
compared: a side that is wrong has no time.
"""
import argparse
import hashlib
import pathlib
import random
import shutil
import statistics
import subprocess
import time

from measurement import MIB, drop_file_cache, remove
from memory_limit import MemoryLimit


def make_random(path, size, repeats):
    """Random bytes, of which a share comes again from far behind: what a long-range compressor looks for."""
    generator = random.Random(11)
    piece = MIB
    with open(path, "wb+") as file:
        for number in range(size // piece):
            if number > 8 and generator.random() < repeats:
                file.seek(generator.randrange(number - 1) * piece + generator.randrange(4096))
                data = file.read(piece)
                file.seek(number * piece)
            else:
                data = generator.randbytes(piece)
            file.write(data)


def make_database(path, rows):
    subprocess.run(["sqlite3", str(path)], check=True, text=True, input=f"""
        CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB, c INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
        INSERT INTO t SELECT i, randomblob(900), abs(random()) % {rows} FROM n;""")


def make_pairs(path, pairs, map_size):
    generator = random.Random(3)
    text = path.parent / "pairs"
    with open(text, "w", encoding="ascii") as file:
        file.write(f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize={map_size}\nmaxreaders=126\nHEADER=END\n")
        for number in range(pairs):
            file.write(f" {number:016x}\n {generator.randbytes(400).hex()}\n")
        file.write("DATA=END\n")
    path.mkdir()
    subprocess.run(["mdb_load", "-f", text, path], check=True)
    text.unlink()


GATHER = """
import numpy as np, sys
rows = np.memmap(sys.argv[1], dtype='u8', mode='r').reshape(-1, 512)
chosen = np.random.default_rng(5).integers(0, len(rows), 3000)
print(sum(int(rows[row].sum()) for row in chosen))
"""
LOOKUPS = ("PRAGMA mmap_size=100000000000; WITH RECURSIVE n(i, k) AS (SELECT 1, 7 UNION ALL SELECT i + 1, "
           "(k * 1103515245 + 12345) & 0x7fffffff FROM n WHERE i < 1000) "
           "SELECT sum(t.c) FROM n CROSS JOIN t ON t.a = 1 + n.k % {rows};")


class Case:
    """A command over data, Tiermap's options for it, what it writes, and the memory that it needs for itself."""

    def __init__(self, name, make, command, options=(), output=None, own_bytes=64 * MIB):
        self.name, self.make, self.command, self.options = name, make, command, list(options)
        self.output, self.own_bytes = output, own_bytes


def cases(folder, size, scale):
    data, rows = folder / "data", size // 1000
    return [
        Case("lrzip", lambda: make_random(data, size, 0.3),
             ["lrzip", "-q", "-n", "-f", "-p", "1", *scale["lrzip"], "-o", folder / "out.lrz", data],
             ["--page-size", "1MiB"], output=folder / "out.lrz", own_bytes=200 * MIB),
        Case("sqlite3 look-ups", lambda: make_database(data, rows), ["sqlite3", data, LOOKUPS.format(rows=rows)],
             ["--page-size", "4KiB"]),
        Case("sqlite3 scan", lambda: make_database(data, rows),
             ["sqlite3", data, "PRAGMA mmap_size=100000000000; SELECT sum(length(b) + c) FROM t"]),
        Case("mdb_dump", lambda: make_pairs(data, size // 600, 2 * size), ["mdb_dump", "-f", folder / "dump", data],
             output=folder / "dump"),
        Case("ripgrep", lambda: make_random(data, size, 0), ["rg", "--mmap", "-a", "-c", "tier[0-9]map|zzzz", data],
             ["--page-size", "1MiB"]),
        Case("np.memmap gather", lambda: make_random(data, size, 0), ["/usr/bin/python3", "-c", GATHER, data],
             ["--page-size", "4KiB"]),
    ]


def digest(result, output):
    """Of what it wrote, or else of what it printed: some print times."""
    hashed = hashlib.sha256(b"" if output is not None else result)
    if output is not None:
        with open(output, "rb") as file:
            while block := file.read(MIB):
                hashed.update(block)
    return hashed.hexdigest()


def run_once(case, command, limit_bytes, folder):
    """Seconds, and the digest of what came of it."""
    if case.output is not None:
        remove(case.output)
    drop_file_cache(folder)
    with MemoryLimit(limit_bytes) as limit:
        started = time.monotonic()
        process = limit.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        printed = process.stdout.read()
        code = process.wait()
        seconds = time.monotonic() - started
    # ripgrep finds nothing, and says so by its exit code.
    if code not in ((0, 1) if case.name == 'ripgrep' else (0,)):
        raise SystemExit(f"{case.name}: exit code {code}: {printed.decode(errors='replace')[-300:]}")
    return seconds, digest(printed, case.output)


def measure(case, tiermap, limit_bytes, buffer_bytes, runs, folder):
    plain = [str(word) for word in case.command]
    served = [str(tiermap), "run", "--buffer", str(buffer_bytes), *case.options, "--", *plain]
    times = {"plain": [], "served": []}
    for number in range(runs):
        sides = [("plain", plain), ("served", served)]
        results = {}
        for side, command in sides if number % 2 == 0 else reversed(sides):
            seconds, results[side] = run_once(case, command, limit_bytes, folder)
            times[side].append(seconds)
        if results["plain"] != results["served"]:
            raise SystemExit(f"{case.name}: what came of it differs")
    return {side: statistics.median(seconds) for side, seconds in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--binaries", type=pathlib.Path, default=pathlib.Path("build/release/bin"))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("/var/tmp/tiermap-unmodified"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--size", type=int, default=512, help="MiB of data")
    parser.add_argument("--ratio", type=float, default=4, help="data to memory; 0.5 and less: all fits")
    parser.add_argument("names", nargs="*", metavar="CASE")
    options = parser.parse_args()
    size = options.size * MIB
    limit = int(size / options.ratio)
    scale = {"lrzip": ["-m", str(max(1, limit // (100 * MIB))), "-w", "10"]}
    print("| program | as it is, s | tiermap run, s | times as fast |\n|---|---|---|---|")
    for case in cases(options.folder, size, scale):
        if options.names and case.name not in options.names:
            continue
        shutil.rmtree(options.folder, ignore_errors=True)
        options.folder.mkdir(parents=True)
        # What the program needs for itself stays free.
        buffer = max(limit - case.own_bytes, 32 * MIB)
        try:
            case.make()
            medians = measure(case, options.binaries / "tiermap", limit, buffer, options.runs, options.folder)
            print(f"| {case.name} | {medians['plain']:.2f} | {medians['served']:.2f} | "
                  f"{medians['plain'] / medians['served']:.2f} |", flush=True)
        finally:
            shutil.rmtree(options.folder, ignore_errors=True)


if __name__ == "__main__":
    main()
