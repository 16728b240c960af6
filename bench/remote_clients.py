#!/usr/bin/env python3
"""One run for `make bench`: so many clients at once look k-mers up in one database, which lies striped over memory
servers, each client those of reads of its own. Prints one JSON object: what all together did, and what clients, servers
and the wire had to do for it.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from measurement import MIB, unwind_on_signals
from servers import Servers, ended

# Reads are cut into so many parts, however many clients there are: a client has the same work alone and beside others.
PARTS = 4


def parts_of(reads, folder):
    """The file of reads, four lines each, as files of which each has its share."""
    lines = reads.read_text().splitlines(keepends=True)
    share = len(lines) // 4 // PARTS * 4
    parts = []
    for part in range(PARTS):
        parts.append(folder / f"reads-{part}.fastq")
        parts[-1].write_text("".join(lines[part * share:(part + 1) * share]))
    return parts


def loopback_bytes():
    """Since the machine started."""
    return int(pathlib.Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


def load(options, servers):
    url = f"remote://{','.join(servers.addresses)}/database?layout=striped"
    subprocess.run([options.program, "serve", "load", options.database, url], check=True, stdout=subprocess.DEVNULL)
    return url


def reports_of(commands):
    """All at once."""
    with contextlib.ExitStack() as running:
        clients = [running.enter_context(ended(subprocess.Popen(command, stdin=subprocess.DEVNULL,
                                                                stdout=subprocess.PIPE, text=True)))
                   for command in commands]
        texts = [client.communicate()[0] for client in clients]
        failed = [client.returncode for client in clients if client.returncode != 0]
    if failed:
        raise SystemExit(f"{len(failed)} of {len(commands)} clients failed")
    return [json.loads(text[text.index("{"):]) for text in texts]


def together(reports, server_seconds, wire_bytes):
    """The clients begin at once, and the last to end ends the run."""
    seconds = max(report["seconds"] for report in reports)
    operations = sum(report["operations"] for report in reports)
    client_seconds = sum(report["user_seconds"] + report["system_seconds"] for report in reports)
    return {"seconds": seconds, "operations": operations, "kmers_per_second": operations / seconds,
            "client_cpu_seconds": client_seconds, "server_cpu_seconds": server_seconds,
            "cpu_seconds": client_seconds + server_seconds,
            "processors_at_work_percent": 100 * (client_seconds + server_seconds) / seconds / os.cpu_count(),
            "wire_bytes": wire_bytes, "wire_bytes_per_second": wire_bytes / seconds,
            "verified": all(report.get("verified") is not False for report in reports)}


def run(options):
    memory = options.database.stat().st_size // options.servers + 64 * MIB
    with Servers(options.program, options.servers, memory) as servers, \
            tempfile.TemporaryDirectory() as folder:
        url = load(options, servers)
        parts = parts_of(options.reads, pathlib.Path(folder))
        commands = [[*options.command, "--database", url, "--reads", part, "--work", "lookup", "--json"]
                    for part in parts[:options.clients]]
        used, sent = servers.cpu_seconds(), loopback_bytes()
        reports = reports_of(commands)
        return together(reports, servers.cpu_seconds() - used, loopback_bytes() - sent)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="tiermap")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--clients", type=int, choices=range(1, PARTS + 1), required=True)
    parser.add_argument("--database", type=pathlib.Path, required=True)
    parser.add_argument("--reads", type=pathlib.Path, required=True)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="tiermap-kmer and its options")
    options = parser.parse_args()
    unwind_on_signals()
    print(json.dumps({**run(options), "clients": options.clients, "servers": options.servers}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
