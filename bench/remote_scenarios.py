"""Scenarios of memory servers: what a remote read gets of what the wire has."""
import pathlib
import shutil
import sys

from cases import Case, Scenario
from lookup_scenarios import KMER, kmer_parts
from measurement import MIB, option_bytes

READER, TIERMAP = "bench-remote_read", "tiermap"
RUN = pathlib.Path(__file__).resolve().parent / "remote_reads.py"
CLIENTS = pathlib.Path(__file__).resolve().parent / "remote_clients.py"
BLOCKS = (4 << 10, 64 << 10, 1 << 20)
DEPTHS = (1, 16)
# As between nodes: shared memory is what UCX would rather use on one machine.
OVER_TCP = {"UCX_TLS": "tcp,self"}


def panel_of(order, depth):
    return f"{order}, {depth} at once"


def remote_reads(bench):
    if shutil.which("ucx_perftest") is None and not bench.dry:
        bench.skip("ucx_perftest", "it is not installed: package ucx-utils")
        return []
    seconds = bench.choose(0.5, 1, 3)
    cases = []
    for order in ("random", "sequential"):
        for depth in DEPTHS:
            for block in BLOCKS:
                about = {"x": block, "panel": panel_of(order, depth), "metric": "bytes_per_second", "for_peers": False,
                         "environment": OVER_TCP}
                size = ("--block", block, "--depth", depth, "--seconds", seconds)
                reads = [sys.executable, RUN, "tiermap", "--program", bench.program(TIERMAP), "--reader",
                         bench.program(READER), *size, *(("--sequential",) if order == "sequential" else ())]
                cases += [Case("calls of one thread", "tiermap", reads, **about),
                          Case("through the store", "tiermap", [*reads, "--store"], **about),
                          Case("ucx_perftest ucp_get", "ucx", [sys.executable, RUN, "ucx-get", *size], **about)]
                if depth == 1:
                    cases.append(Case("ucx_perftest tag_lat", "ucx", [sys.executable, RUN, "ucx-messages", *size], **about))
    return cases


def kmer_clients(bench):
    database, size, reads = kmer_parts(bench)
    cases = []
    for clients in (1, 2, 4):
        # An eighth, as of the paper's nodes: 64 GB, and a database of 480 GB.
        command = [sys.executable, CLIENTS, "--program", bench.program(TIERMAP), "--clients", clients, "--database",
                   database, "--reads", reads, bench.program(KMER), "--lookups", bench.choose(10000, 40000, 500000),
                   "--page-size", "4KiB", "--threads", 16, "--no-verify", "--budget",
                   option_bytes(max(size // 8, 8 * MIB) // MIB * MIB)]
        cases.append(Case("tiermap", "tiermap", command, x=clients, metric="kmers_per_second", data_bytes=size,
                          environment=OVER_TCP, for_peers=False))
    return cases


SCENARIOS = (
    Scenario("remote-reads", "Remote reads over TCP loopback",
             "`bench-remote_read`: blocks of a data set in a memory server's DRAM, 512 MiB, by calls that one thread has on "
             "their way, and through the store, by a thread for each; client and server are a process each. Beside it "
             "UCX's own `ucx_perftest -t ucp_get`, with the segments that Tiermap chooses, which reads one buffer over "
             "and over, and verifies nothing.", (READER, TIERMAP), remote_reads, "size of a read"),
    Scenario("kmer-clients", "k-mer look-up: clients of one remote database",
             "`tiermap-kmer --work lookup` by 1, 2 and 4 clients at once, of 16 threads each, in one database that lies "
             "striped in the DRAM of three memory servers, a process each; over TCP loopback, where clients and servers "
             "share the cores. Each client has reads of its own, and memory for an eighth of the database.",
             (KMER, TIERMAP), kmer_clients, "clients"),
)
