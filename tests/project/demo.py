#!/usr/bin/env python3
"""`make demo` with programs that only pretend, and the memory limit on a tree of control groups that is none."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
import demo  # noqa: E402
import demo_report  # noqa: E402
import memory_limit  # noqa: E402
from measurement import MIB, Interrupted  # noqa: E402

# Stands for all three programs: notes how it was called, makes what the demo looks at, and says what WRONG tells it to.
PRETENDER = """#!{python}
import json, os, pathlib, sys
name, words = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
value = lambda option: words[words.index(option) + 1] if option in words else ""
folder = pathlib.Path(sys.argv[0]).parent
with open(folder / "calls", "a") as calls:
    print(name, *words, file=calls)
kind = "build" if "--build-only" in words else f"{{name}} {{value('--system')}}".strip()
if kind == "build":
    with open(value("--graph"), "wb") as graph:
        graph.truncate(400 << 20)
if name == "tiermap-debian-graph":
    pathlib.Path(value("--output")).write_text("0 1\\n")
wrong = os.environ.get("WRONG") == kind
if wrong and os.environ.get("WITHOUT_JSON"):
    print("no luck", file=sys.stderr)
    sys.exit(1)
print(json.dumps({{"seconds": 2.0 if value("--system") == "mmap" else 1.0, "verified": not wrong, "vertices": 2,
                  "edges": 1, "read_bytes": 1 << 20}}))
sys.exit(1 if wrong and not os.environ.get("STILL_EXIT_0") else 0)
"""


def outcome(**changed):
    """What the demo found: all right, but for the systems (or the package graph) that are given otherwise."""
    run = {"seconds": 1.0, "verified": True, "read_bytes": MIB}
    results = {name: [dict(run, seconds=seconds)] for name, seconds in
               (("tiermap", 2.0), ("mmap", 6.0), ("mmap, with advice", 4.0))}
    results.update(changed.pop("results", {}))
    times = {name: {"median": runs[0]["seconds"], "min": 1.0, "max": 9.0, "runs": 1} for name, runs in results.items()
             if "failed" not in runs[0]}
    graph = {"job": "package graph", "seconds": 0.5, "verified": True, **changed.pop("graph", {})}
    return {"no_limit": None, "jobs": [graph, {"job": "sort", "bytes": 1 << 30, "limit_bytes": 1 << 28,
                                               "results": results, "seconds": times}], **changed}


class Verdict(unittest.TestCase):
    def test_all_right_is_good(self):
        self.assertTrue(demo_report.all_good(outcome()))

    def test_a_row_that_is_not_verified_is_not_good(self):
        for name in ("tiermap", "mmap", "mmap, with advice"):
            wrong = outcome(results={name: [{"seconds": 1.0, "verified": True}, {"seconds": 1.0, "verified": False}]})
            self.assertFalse(demo_report.all_good(wrong), name)
            row = next(line for line in demo_report.table(wrong).splitlines() if line.startswith(f"{'sort':<14} {name}  "))
            self.assertTrue(row.endswith("  NO"), row)

    def test_tiermap_has_to_be_checked_and_may_not_fail(self):
        for run in ({"seconds": 1.0}, {"seconds": 1.0, "verified": None}, {"seconds": 1.0, "failed": "exit code 1"}):
            self.assertFalse(demo_report.all_good(outcome(results={"tiermap": [run]})), run)
        for graph in ({"verified": False}, {"verified": None}, {"failed": "exit code 2"}):
            self.assertFalse(demo_report.all_good(outcome(graph=graph)), graph)

    def test_mmap_may_run_out_of_time_and_the_table_says_so(self):
        late = outcome(results={"mmap": [{"failed": "stopped after 120 s"}]})
        self.assertTrue(demo_report.all_good(late))
        self.assertIn("stopped after 120 s", demo_report.table(late))

    def test_the_ratio_is_mmaps_time_over_tiermaps(self):
        rows = demo_report.table(outcome()).splitlines()
        self.assertEqual([row.split()[-2] for row in rows if " mmap" in row and row.startswith("sort")],
                         ["3.00", "2.00"])

    def test_a_skipped_side_is_named_with_the_reason(self):
        self.assertNotIn("Skipped", demo_report.table(outcome()))
        skipped = [line for line in demo_report.table(outcome(no_limit="not permitted")).splitlines()
                   if line.startswith("Skipped: mmap")]
        self.assertEqual(len(skipped), 1)
        self.assertIn("not permitted", skipped[0])


class Size(unittest.TestCase):
    def test_asks_for_no_more_disk_than_a_small_machine_has(self):
        self.assertLessEqual(demo.DISK_NEEDED, 12 << 30)


class Run(unittest.TestCase):
    """The whole demo, with pretenders for programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin, self.output = self.folder / "bin", self.folder / "output"
        self.bin.mkdir()
        for name in ("tiermap-sort", "tiermap-bfs", "tiermap-debian-graph"):
            (self.bin / name).write_text(PRETENDER.format(python=sys.executable))
            (self.bin / name).chmod(0o755)
        lists = self.folder / "lists"
        lists.mkdir()
        (lists / "main_Packages").write_text("Package: a\n")
        for name, value in (("DISK_NEEDED", 0), ("PACKAGE_LISTS", lists), ("limit_reason", lambda: "not permitted")):
            self.replace(mock.patch.object(demo, name, value))
        # Its handlers would stay for the rest of the tests; one of them sets them itself.
        self.replace(mock.patch.object(demo, "unwind_on_signals"))
        self.replace(mock.patch.dict(os.environ, {"TIERMAP_BENCH_DROP_CACHES": "0"}))
        self.without_matplotlib = mock.patch.dict(sys.modules, {"matplotlib": None})

    def replace(self, patch):
        patch.start()
        self.addCleanup(patch.stop)

    def demo(self, *arguments, **environment):
        """Runs it; returns the exit code and what it printed. Nothing may be left in the scratch folder."""
        said = io.StringIO()
        with mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(said), \
                contextlib.redirect_stderr(said), self.without_matplotlib, \
                mock.patch.object(sys, "argv", ["demo.py", "--bin", str(self.bin), "--output", str(self.output),
                                                "--seconds-for-job", "0", *arguments]):
            code = demo.main()
        self.assertEqual([path.name for path in self.output.glob("scratch-*")], [])
        return code, said.getvalue()

    def calls(self):
        return (self.bin / "calls").read_text().splitlines()

    def test_all_right_ends_with_0_a_table_and_the_numbers(self):
        code, said = self.demo()
        self.assertEqual(code, 0, said)
        for job in ("package graph", "sort", "bfs"):
            self.assertRegex(said, rf"\n{job} +tiermap .* yes\n")
        numbers = json.loads((self.output / "demo.json").read_text())
        self.assertEqual([job["job"] for job in numbers["jobs"]], ["package graph", "sort", "bfs"])
        self.assertIn("No picture: python3-matplotlib is not installed", said)

    def test_the_package_graph_is_checked_against_a_traversal_in_plain_memory(self):
        self.demo()
        edges, search = self.calls()[:2]
        self.assertTrue(edges.startswith("tiermap-debian-graph "), edges)
        self.assertTrue(search.startswith("tiermap-bfs "), search)
        self.assertIn("--check-in-memory", search.split())
        self.assertEqual(search.split("--input ")[1].split()[0], edges.split("--output ")[1].split()[0])

    def test_every_result_is_checked(self):
        self.demo()
        self.assertFalse([call for call in self.calls() if "--no-verify" in call])

    def test_draws_a_picture_where_matplotlib_is_installed(self):
        if importlib.util.find_spec("matplotlib") is None:
            self.skipTest("python3-matplotlib is not installed")
        self.without_matplotlib = contextlib.nullcontext()
        code, said = self.demo()
        self.assertEqual(code, 0, said)
        self.assertEqual((self.output / "demo.png").read_bytes()[:4], b"\x89PNG")

    def test_a_wrong_result_ends_with_1_whatever_the_program_ended_with(self):
        for kind in ("tiermap-sort tiermap", "tiermap-bfs tiermap", "build", "tiermap-debian-graph", "tiermap-bfs"):
            for how in ({}, {"WITHOUT_JSON": "1"}):
                self.assertEqual(self.demo(WRONG=kind, **how)[0], 1, f"{kind} {how}")
        for kind in ("tiermap-sort tiermap", "tiermap-bfs tiermap", "tiermap-bfs"):
            code, said = self.demo(WRONG=kind, STILL_EXIT_0="1")
            self.assertEqual(code, 1, kind)
            self.assertRegex(said, r" NO\n")

    def test_without_a_control_group_mmap_is_skipped_by_name(self):
        code, said = self.demo()
        self.assertEqual(code, 0)
        self.assertIn("Skipped: the mmap side, because it cannot be held to a limit: not permitted", said)
        self.assertIn("Skipped: mmap (no memory limit can be set: not permitted)", said)
        self.assertFalse([call for call in self.calls() if "--system mmap" in call])

    def test_with_control_groups_both_sides_run_under_the_same_limit(self):
        limits = []

        class NoLimit:
            def __init__(self, limit_bytes):
                limits.append(limit_bytes)
                self.start = lambda command, **streams: subprocess.Popen(command, start_new_session=True, **streams)
                self.peak_bytes = lambda: None
                self.__class__.__enter__ = lambda self: self
                self.__class__.__exit__ = lambda self, *_: None

        with mock.patch("measurement.MemoryLimit", NoLimit), mock.patch.object(demo, "limit_reason", lambda: None):
            code, said = self.demo()
        self.assertEqual(code, 0, said)
        self.assertNotIn("Skipped", said)
        self.assertRegex(said, r"\nsort +mmap, with advice .* 2\.00  yes\n")
        self.assertEqual(limits, [256 * MIB] * 3 + [100 * MIB + (16 << 21)] * 4)
        turning = {call.split("--system ")[1].split()[0] for call in self.calls() if "--scan alternate" in call}
        self.assertEqual(turning, {"tiermap", "mmap"})
        budgets = {call.split("--budget ")[1].split()[0] for call in self.calls() if call.startswith("tiermap-sort")}
        self.assertEqual(budgets, {"232MiB"})

    def test_without_package_lists_the_installed_packages_are_taken(self):
        with mock.patch.object(demo, "PACKAGE_LISTS", self.folder / "none"):
            code, said = self.demo()
        self.assertEqual(code, 0, said)
        self.assertIn("the installed packages instead", said)
        lists = self.calls()[0].split("--lists ")[1].split()[0]
        self.assertTrue(lists.startswith(str(self.output)), lists)

    def test_an_interruption_gives_the_disk_back_and_ends_with_130(self):
        def interrupt(*_):
            raise Interrupted(signal.Signals(signal.SIGTERM).name)

        with mock.patch.object(demo, "sort", interrupt):
            code, said = self.demo()
        self.assertEqual(code, 130)
        self.assertIn("ended by SIGTERM", said)

    def test_a_failure_of_the_demo_itself_gives_the_disk_back(self):
        with mock.patch.object(demo, "breadth_first_search", mock.Mock(side_effect=ValueError("a mistake"))), \
                self.assertRaises(ValueError):
            self.demo()
        self.assertEqual(list(self.output.glob("scratch-*")), [])

    def test_too_small_a_disk_is_said_before_anything_runs(self):
        with mock.patch.object(demo, "DISK_NEEDED", 1 << 60), self.assertRaises(SystemExit) as refused:
            self.demo()
        self.assertIn("--scratch", str(refused.exception))
        self.assertFalse((self.bin / "calls").exists())


class Limit(unittest.TestCase):
    """Which control group is made, on a tree that only looks like one."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        (self.tree / "proc/self").mkdir(parents=True)
        self.written = {}
        self.refused = []
        for name, value in (("PROC", self.tree / "proc"), ("_write", self.write), ("_as_root", lambda *_: False)):
            patch = mock.patch.object(memory_limit, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def write(self, path, text):
        # Noted only: a folder with files in it cannot be removed, where a control group can.
        if any(part in str(path) for part in self.refused):
            raise PermissionError(13, "Permission denied", str(path))
        self.written[str(path.relative_to(self.tree))] = text

    def machine_has(self, mounts, groups):
        (self.tree / "proc/mounts").write_text("".join(f"none {self.tree / where} {kind} {options} 0 0\n"
                                                       for where, kind, options in mounts))
        (self.tree / "proc/self/cgroup").write_text(groups)

    def version_1(self):
        (self.tree / "memory/job").mkdir(parents=True)
        return ("memory", "cgroup", "rw,memory")

    def version_2(self):
        group = self.tree / "unified/user/shell"
        group.mkdir(parents=True)
        for folder in (group, group.parent, group.parent.parent):
            (folder / "cgroup.subtree_control").write_text("pids\n")
        (self.tree / "unified/cgroup.controllers").write_text("cpu memory pids\n")
        return ("unified", "cgroup2", "rw")

    def made(self, limit):
        return str(limit.group.relative_to(self.tree))

    def test_version_1_where_its_memory_controller_is_mounted(self):
        self.machine_has([self.version_2(), self.version_1()], "4:memory:/job\n0::/user/shell\n")
        with memory_limit.MemoryLimit(1 << 20) as limit:
            self.assertEqual((limit.version, self.made(limit)), (1, f"memory/job/tiermap-{os.getpid()}"))
            self.assertEqual(self.written, {self.made(limit) + "/memory.limit_in_bytes": "1048576"})
            group = limit.group
            self.assertTrue(group.is_dir())
        self.assertFalse(group.exists())

    def test_a_containers_mount_is_its_group(self):
        self.machine_has([self.version_1()], "4:memory:/not/seen/in/here\n")
        with memory_limit.MemoryLimit(1 << 20) as limit:
            self.assertEqual(self.made(limit), f"memory/tiermap-{os.getpid()}")

    def test_version_2_where_version_1_has_no_memory_controller(self):
        self.machine_has([self.version_2()], "0::/user/shell\n")
        with memory_limit.MemoryLimit(1 << 20) as limit:
            self.assertEqual((limit.version, self.made(limit)), (2, f"unified/user/shell/tiermap-{os.getpid()}"))
            self.assertEqual(self.written[self.made(limit) + "/memory.max"], "1048576")
            self.assertEqual(self.written["unified/user/shell/cgroup.subtree_control"], "+memory")

    def test_version_2_goes_up_to_a_group_that_hands_the_controller_down(self):
        self.machine_has([self.version_2()], "0::/user/shell\n")
        self.refused = ["shell/cgroup.subtree_control"]
        with memory_limit.MemoryLimit(1 << 20) as limit:
            self.assertEqual(self.made(limit), f"unified/user/tiermap-{os.getpid()}")

    def test_version_2_where_version_1_is_refused(self):
        self.machine_has([self.version_1(), self.version_2()], "4:memory:/job\n0::/user/shell\n")
        self.refused = ["memory.limit_in_bytes"]
        with memory_limit.MemoryLimit(1 << 20) as limit:
            self.assertEqual(limit.version, 2)
        self.assertEqual(list((self.tree / "memory/job").iterdir()), [])

    def test_where_none_is_permitted_the_reason_names_both_and_nothing_is_left(self):
        self.machine_has([self.version_1(), self.version_2()], "4:memory:/job\n0::/user/shell\n")
        self.refused = ["memory.limit_in_bytes", "memory.max"]
        reason = memory_limit.limit_reason()
        self.assertIn("memory.limit_in_bytes", reason)
        self.assertIn("no group of version 2 may be made", reason)
        self.assertEqual(list(self.tree.rglob("tiermap-*")), [])

    def test_where_nothing_is_mounted_the_reason_says_so(self):
        self.machine_has([], "")
        self.assertIn("version 2 is not mounted", memory_limit.limit_reason())

    def test_a_program_begins_only_inside_the_group(self):
        self.machine_has([self.version_1()], "4:memory:/job\n")
        began = self.tree / "began"
        with memory_limit.MemoryLimit(1 << 20) as limit:
            process = limit.start(["/bin/sh", "-c", f"echo $$ >{began}"])
            self.assertEqual(process.wait(), 0)
            self.assertEqual(self.written[self.made(limit) + "/cgroup.procs"], began.read_text().strip())
            began.unlink()
            self.refused = ["cgroup.procs"]
            with self.assertRaises(PermissionError):
                limit.start(["/bin/sh", "-c", f"echo $$ >{began}"])
        self.assertFalse(began.exists())


if __name__ == "__main__":
    unittest.main()
