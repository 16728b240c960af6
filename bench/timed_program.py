#!/usr/bin/env python3
"""Runs a program that knows nothing of measuring: timed_program.py [OPTIONS] COMMAND...; prints as JSON how long it took,
and whether what it printed, or wrote, is what came of it the first time."""
import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import time

from measurement import MIB, remove


def digest_of(printed, output):
    """Of what it wrote, if that is to count, else of what it printed."""
    if output is None:
        return hashlib.sha256(printed).hexdigest()
    hashed = hashlib.sha256()
    with open(output, "rb") as file:
        while block := file.read(MIB):
            hashed.update(block)
    return hashed.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expect", type=pathlib.Path, required=True, help="file of the digest; made by the first run")
    parser.add_argument("--output", type=pathlib.Path, help="what the program writes: this counts, not what it prints")
    parser.add_argument("--exit-code", type=int, default=0, help="the one that is right")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.output is not None:
        remove(options.output)
    started = time.monotonic()
    done = subprocess.run(options.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False)
    seconds = time.monotonic() - started
    if done.returncode != options.exit_code:
        sys.exit(f"{options.command[0]}: exit code {done.returncode}: {done.stdout[-300:].decode(errors='replace')}")
    digest = digest_of(done.stdout, options.output)
    if not options.expect.exists():
        options.expect.write_text(digest)
    print(json.dumps({"seconds": seconds, "verified": options.expect.read_text() == digest}))


if __name__ == "__main__":
    main()
