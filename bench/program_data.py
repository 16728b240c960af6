#!/usr/bin/env python3
"""Makes what packaged programs read: program_data.py KIND PATH BYTES. The same bytes every time, but for what a database
puts around them; prints an empty JSON object."""
import argparse
import pathlib
import random
import subprocess

from measurement import MIB

ROW_BYTES = 1000
PAIR_BYTES = 600


def make_random(path, size, repeats=0.0):
    """Random bytes, of which a share comes again from far behind: what a long-range compressor looks for."""
    generator = random.Random(11)
    with open(path, "wb+") as file:
        for number in range(size // MIB):
            if number > 8 and generator.random() < repeats:
                file.seek(generator.randrange(number - 1) * MIB + generator.randrange(4096))
                data = file.read(MIB)
                file.seek(number * MIB)
            else:
                data = generator.randbytes(MIB)
            file.write(data)


def make_repeating(path, size):
    make_random(path, size, 0.3)


def make_database(path, size):
    """An SQLite table of rows of some 1,000 bytes."""
    rows = size // ROW_BYTES
    subprocess.run(["sqlite3", str(path)], check=True, text=True, input=f"""
        CREATE TABLE t(a INTEGER PRIMARY KEY, b BLOB, c INTEGER);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
        INSERT INTO t SELECT i, randomblob(900), abs(random()) % {rows} FROM n;""")


def make_pairs(path, size):
    """An LMDB environment of pairs of some 600 bytes."""
    generator = random.Random(3)
    text = path.with_suffix(".pairs")
    with open(text, "w", encoding="ascii") as file:
        file.write(f"VERSION=3\nformat=bytevalue\ntype=btree\nmapsize={2 * size}\nmaxreaders=126\nHEADER=END\n")
        for number in range(size // PAIR_BYTES):
            file.write(f" {number:016x}\n {generator.randbytes(400).hex()}\n")
        file.write("DATA=END\n")
    path.mkdir()
    subprocess.run(["mdb_load", "-f", text, path], check=True)
    text.unlink()


KINDS = {"random": make_random, "repeating": make_repeating, "database": make_database, "pairs": make_pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("bytes", type=int)
    options = parser.parse_args()
    KINDS[options.kind](options.path, options.bytes)
    print("{}")


if __name__ == "__main__":
    main()
