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


def digest_of(stream):
    """Its digest and its end. It may be as long as the data, and is not kept: the program's memory limit is this one's."""
    hashed = hashlib.sha256()
    end = b""
    while block := stream.read(MIB):
        hashed.update(block)
        end = (end + block)[-300:]
    return hashed.hexdigest(), end


def run(command):
    """Its exit code, the digest and the end of what it printed, and how long that took."""
    started = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        digest, end = digest_of(process.stdout)
    return process.returncode, digest, end, time.monotonic() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--expect", type=pathlib.Path, required=True, help="file of the digest; made by the first run")
    parser.add_argument("--output", type=pathlib.Path, help="what the program writes: this counts, not what it prints")
    parser.add_argument("--exit-code", type=int, default=0, help="the one that is right")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.output is not None:
        remove(options.output)
    exit_code, digest, end, seconds = run(options.command)
    if exit_code != options.exit_code:
        sys.exit(f"{options.command[0]}: exit code {exit_code}: {end.decode(errors='replace')}")
    if options.output is not None:
        with open(options.output, "rb") as file:
            digest, _ = digest_of(file)
    if not options.expect.exists():
        options.expect.write_text(digest)
    print(json.dumps({"seconds": seconds, "verified": options.expect.read_text() == digest}))


if __name__ == "__main__":
    main()
