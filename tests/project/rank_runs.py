#!/usr/bin/env python3
"""What bench/ starts ranks, memory servers and their clients by: programs that pretend to be these are started as they
should be, their reports are added up, and nothing is left of them, or of nodes."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
import nodes  # noqa: E402
import remote_clients  # noqa: E402
import spark_mllib  # noqa: E402

# A server says where it is before it serves; its process is noted, as it has to be gone at the end.
TIERMAP = """#!/bin/sh
echo "$*" >>"$NOTES/calls"
[ "$2" != --listen ] || { echo $$ >>"$NOTES/servers"; echo "listening on 127.0.0.1:70$$, 0 data sets"; exec sleep 60; }
"""
MPIEXEC = """#!/bin/sh
[ "$1" = -n ] && [ "$2" = 3 ] || exit 9
shift 2
exec "$@"
"""
RANK = """#!/bin/sh
echo "{
 \\"seconds\\": 1.5, \\"servers\\": \\"$TIERMAP_SERVERS\\", \\"words\\": \\"$*\\"
}"
exit ${RANK_ENDS:-0}
"""
CLIENT = """#!/bin/sh
echo "$*" >>"$NOTES/clients"
for word; do case $word in *.fastq) reads=$word;; esac; done
echo "{\\"seconds\\": $(head -1 "$reads"), \\"operations\\": 10, \\"user_seconds\\": 1, \\"system_seconds\\": 0.5}"
exit ${CLIENT_ENDS:-0}
"""


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, text in (("tiermap", TIERMAP), ("mpiexec.mpich", MPIEXEC), ("rank", RANK), ("client", CLIENT)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def environment(self, **changed):
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "NOTES": str(self.folder), **changed}

    def run_script(self, script, *words, **changed):
        return subprocess.run([sys.executable, "-B", ROOT / "bench" / script, *map(str, words)], capture_output=True,
                              text=True, check=False, env=self.environment(**changed))

    def servers(self):
        path = self.folder / "servers"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def assert_no_server_is_left(self):
        for process in self.servers():
            self.assertFalse(pathlib.Path(f"/proc/{process}").exists())


class Ranks(Programs):
    def ranks(self, *words, **changed):
        return self.run_script("ranks.py", "--ranks", 3, *words, **changed)

    def test_ranks_know_their_servers_and_the_report_says_what_these_took(self):
        done = self.ranks("--program", self.folder / "tiermap", "--servers", 2, self.folder / "rank", "--size", 8)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual((report["seconds"], report["words"]), (1.5, "--size 8"))
        started = self.servers()
        self.assertEqual(sorted(report["servers"].split(",")), sorted(f"127.0.0.1:70{process}" for process in started))
        self.assertEqual(len(started), 2)
        self.assertGreaterEqual(report["server_cpu_seconds"], 0)
        self.assertNotIn("wire_bytes", report)
        self.assert_no_server_is_left()

    def test_a_plain_mpi_program_has_none(self):
        report = json.loads(self.ranks(self.folder / "rank", TIERMAP_SERVERS="").stdout)
        self.assertEqual((report["servers"], self.servers()), ("", []))

    def test_ranks_that_fail_have_no_report_and_servers_end(self):
        done = self.ranks("--program", self.folder / "tiermap", "--servers", 1, self.folder / "rank", RANK_ENDS="3")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertEqual(len(self.servers()), 1)
        self.assert_no_server_is_left()

    def test_servers_end_when_the_run_is_told_to(self):
        command = [sys.executable, "-B", ROOT / "bench/ranks.py", "--ranks", "3", "--program", self.folder / "tiermap",
                   "--servers", "1", "sh", "-c", "kill -TERM $PPID; sleep 60"]
        with subprocess.Popen(command, env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as run:
            self.addCleanup(lambda: run.poll() is None and os.killpg(run.pid, signal.SIGKILL))
            self.assertNotEqual(run.wait(timeout=30), 0)
        self.assertEqual(len(self.servers()), 1)
        self.assert_no_server_is_left()

    def test_a_server_that_does_not_start_is_said(self):
        (self.folder / "tiermap").write_text("#!/bin/sh\necho no port >&2\nexit 1\n")
        done = self.ranks("--program", self.folder / "tiermap", "--servers", 1, self.folder / "rank")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a memory server did not start", done.stderr)
        self.assertIn("no port", done.stderr)


class Clients(Programs):
    def setUp(self):
        super().setUp()
        self.database, self.reads = self.folder / "database", self.folder / "reads"
        self.database.write_bytes(b"k" * 4096)
        # Of each client's reads the pretender takes the first line for its seconds.
        self.reads.write_text("".join(f"{read}\nb\nc\nd\n" for read in (1, 2, 3, 4, 5, 6, 7, 8, 9)))

    def clients(self, count, **changed):
        return self.run_script("remote_clients.py", "--program", self.folder / "tiermap", "--clients", count, "--database",
                               self.database, "--reads", self.reads, self.folder / "client", "--threads", 16, **changed)

    def test_what_all_clients_did_is_added_up_over_the_time_of_the_last(self):
        done = self.clients(2)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        # The second one's reads begin with the third.
        self.assertEqual((report["seconds"], report["operations"], report["kmers_per_second"]), (3, 20, 20 / 3))
        self.assertEqual(report["client_cpu_seconds"], 3)
        self.assertAlmostEqual(report["processors_at_work_percent"],
                               100 * (3 + report["server_cpu_seconds"]) / 3 / os.cpu_count())
        calls = (self.folder / "clients").read_text().splitlines()
        addresses = sorted(f"127.0.0.1:70{process}" for process in self.servers())
        self.assertEqual(len(addresses), 3)
        for call in calls:
            url = call.split()[3]
            self.assertEqual(sorted(url.removeprefix("remote://").split("/")[0].split(",")), addresses)
        loaded = [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith("serve load ")]
        self.assertEqual(len(loaded), 1)
        self.assert_no_server_is_left()

    def test_a_client_that_fails_fails_the_run(self):
        done = self.clients(4, CLIENT_ENDS="1")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("4 of 4 clients failed", done.stderr)
        self.assert_no_server_is_left()

    def test_reads_are_cut_between_records_and_none_is_in_two_parts(self):
        parts = [part.read_text() for part in remote_clients.parts_of(self.reads, self.folder)]
        self.assertEqual([part.split()[0::4] for part in parts], [["1", "2"], ["3", "4"], ["5", "6"], ["7", "8"]])


class Workers(unittest.TestCase):
    def test_the_heaps_of_all_java_processes_are_within_what_they_may_keep(self):
        class Options:
            memory_mebibytes, workers = 2304, 2
        driver, worker = spark_mllib.heaps_of(Options)
        self.assertLess(driver + 2 * worker, 2304)
        # Spark takes no less.
        self.assertGreater(min(driver, worker), 450)
        Options.workers = 0
        self.assertEqual(spark_mllib.heaps_of(Options), (2304, None))


class Cables(unittest.TestCase):
    def test_what_a_node_sends_to_another_is_counted_and_nodes_leave_nothing(self):
        if nodes.reason_without_nodes():
            self.skipTest(nodes.reason_without_nodes())
        try:
            both = nodes.Nodes(2).__enter__()
        except subprocess.CalledProcessError as problem:
            self.skipTest(f"network namespaces cannot be made here: {problem}")
        try:
            before = both.sent_bytes()
            send = ("import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                    "[s.sendto(bytes(1000), ('10.78.0.2', 9)) for _ in range(50)]")
            subprocess.run(both.command(0, [sys.executable, "-c", send]), check=True)
            self.assertGreaterEqual(both.sent_bytes() - before, 50000)
            places = [pathlib.Path("/run/netns", both.place(node)) for node in (0, 1, nodes.SWITCH)]
            self.assertTrue(all(place.exists() for place in places))
        finally:
            both.__exit__()
        self.assertFalse(any(place.exists() for place in places))


if __name__ == "__main__":
    unittest.main()
