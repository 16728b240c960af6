#!/usr/bin/env python3
"""One run for `make bench`: reads of a data set on a memory server in another process, or what UCX's own ucx_perftest gets
for reads of that size, so many at once. Prints one JSON object; both go over TCP if UCX_TLS says so.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

from servers import Servers

DATA_BYTES = 512 << 20
# As Tiermap sets them where nobody else does: without, UCX cuts a page into several segments.
TUNED = {"UCX_TCP_TX_SEG_SIZE": "128k", "UCX_TCP_RX_SEG_SIZE": "128k"}


def tiermap(options):
    with Servers(options.program, 1, DATA_BYTES) as servers:
        url = f"remote://{servers.addresses[0]}/pages"
        subprocess.run([options.program, "serve", "create", url, "--size", str(DATA_BYTES)], check=True)
        # A page of memory that nobody wrote is the one page of zeros, again and again.
        subprocess.run([options.reader, "--url", url, "--fill"], check=True)
        before = servers.cpu_seconds()
        read = subprocess.run([options.reader, "--url", url, "--block", str(options.block), "--depth",
                               str(options.depth), "--seconds", str(options.seconds),
                               *(["--sequential"] if options.sequential else []),
                               *(["--store"] if options.store else [])], check=True, stdout=subprocess.PIPE, text=True)
        return {**json.loads(read.stdout), "server_cpu_seconds": servers.cpu_seconds() - before}


def perftest(test, block_bytes, depth, iterations):
    """The fields of its last line; none if its two ends did not meet."""
    port = str(random.randint(20000, 32000))
    common = ["ucx_perftest", "-t", test, "-s", str(block_bytes), "-O", str(depth), "-n", str(iterations), "-w", "100", "-f",
              "-v", "-p", port]
    environment = {**TUNED, **os.environ}
    with subprocess.Popen(common, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment) as server:
        try:
            time.sleep(0.5)
            said = subprocess.run([common[0], "127.0.0.1", *common[1:]], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True, check=False, timeout=60, env=environment).stdout
            # Iterations; latency: half of them, on average, overall; MiB/s: on average, overall; messages a second.
            fields = said.strip().rsplit("\n", 1)[-1].split(",")
            return [float(field) for field in fields] if len(fields) == 8 else None
        except subprocess.TimeoutExpired:
            return None
        finally:
            server.kill()


def ucx_get(options):
    """Bytes a second of so many reads at once."""
    iterations = 1000
    for _ in range(6):
        fields = perftest("ucp_get", options.block, options.depth, iterations)
        rate = fields[5] * (1 << 20) if fields else None
        wanted = int((rate or 0) / options.block * options.seconds)
        if rate is not None and iterations * 2 >= wanted:
            return {"bytes_per_second": rate, "iterations": iterations}
        iterations = max(wanted, 1000)
    raise SystemExit("ucx_perftest's two ends did not meet, or it said no rate")


def ucx_messages(options):
    """Bytes a second of a read that is two messages, there 64 bytes and back the block: what UCX takes for each is half of
    a round trip of that size."""
    seconds = 0.0
    for message_bytes in (64, options.block):
        iterations = max(1000, min(20000, (1 << 30) // message_bytes))
        fields = next(filter(None, (perftest("tag_lat", message_bytes, 1, iterations) for _ in range(6))), None)
        if fields is None:
            raise SystemExit("ucx_perftest's two ends did not meet, or it said no latency")
        seconds += fields[3] * 1e-6
    return {"bytes_per_second": options.block / seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("of", choices=("tiermap", "ucx-get", "ucx-messages"))
    parser.add_argument("--program", help="tiermap")
    parser.add_argument("--reader", help="bench-remote_read")
    parser.add_argument("--block", type=int, required=True)
    parser.add_argument("--depth", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--sequential", action="store_true")
    parser.add_argument("--store", action="store_true")
    options = parser.parse_args()
    report = {"tiermap": tiermap, "ucx-get": ucx_get, "ucx-messages": ucx_messages}[options.of](options)
    print(json.dumps({**report, "block_bytes": options.block, "depth": options.depth}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
