#!/usr/bin/env python3
"""One run for `make bench`: ranks.py [OPTIONS] COMMAND...; a program as so many ranks, by MPICH's mpiexec, with so many
memory servers around it; none for a plain MPI program. Prints the JSON object of the first rank, with what the servers
took of processors; with --nodes, every rank on a node of its own and its server with it, and with what crossed the
cables between them.
"""
import argparse
import contextlib
import json
import os
import subprocess
import sys

from measurement import unwind_on_signals
from nodes import Nodes
from servers import Servers

MPIEXEC = "mpiexec.mpich"
# Both know that nodes of one machine are one machine, and would go through its memory.
BETWEEN_NODES = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "cable", "MPIR_CVAR_NOLOCAL": "1"}


def launch(options, nodes):
    """The command that starts all ranks."""
    if nodes is None:
        return [MPIEXEC, "-n", str(options.ranks), *options.command]
    words = [MPIEXEC]
    for node in range(options.ranks):
        words += [":"] * (node > 0) + ["-n", "1", *nodes.command(node, options.command)]
    return words


def report_in(text):
    """The JSON object of a program's output, on one line or on many."""
    lines = text.strip()
    return json.loads(lines[lines.index("{"):])


def run(options):
    with contextlib.ExitStack() as stack:
        nodes = stack.enter_context(Nodes(options.ranks)) if options.nodes else None
        servers = stack.enter_context(Servers(options.program, options.servers, options.memory_bytes, nodes))
        environment = {**os.environ, **(BETWEEN_NODES if nodes else {}), **servers.environment()}
        sent, used = nodes.sent_bytes() if nodes else 0, servers.cpu_seconds()
        done = subprocess.run(launch(options, nodes), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                              check=False, env=environment)
        if done.returncode != 0:
            raise SystemExit(done.returncode)
        report = {**report_in(done.stdout), "server_cpu_seconds": servers.cpu_seconds() - used}
        return {**report, "wire_bytes": nodes.sent_bytes() - sent} if nodes else report


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", help="tiermap, for servers")
    parser.add_argument("--servers", type=int, default=0)
    parser.add_argument("--memory-bytes", type=int, default=256 << 20, help="that each server gives")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--nodes", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    unwind_on_signals()
    print(json.dumps(run(options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
