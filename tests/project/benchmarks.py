#!/usr/bin/env python3
"""`make bench` with programs that only pretend, and the page that it writes, from results that are made up."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
import benchmarks_page  # noqa: E402
import run  # noqa: E402
import scenarios  # noqa: E402
from devices import DeviceUnavailable  # noqa: E402
from measurement import MIB, Interrupted  # noqa: E402

MACHINE = {"processor": "Abacus", "cores": 2, "memory_bytes": 8 << 30, "kernel": "6.1", "system": "Debian",
           "read_ahead_kib": 128, "date": "2026-01-02"}

# Stands for every program: notes how it was called, makes the files that are looked for, and says what it measured.
PRETENDER = """#!{python}
import json, os, pathlib, sys
words = sys.argv[1:]
value = lambda option: words[words.index(option) + 1] if option in words else ""
with open(pathlib.Path(sys.argv[0]).parent / "calls", "a") as calls:
    print(pathlib.Path(sys.argv[0]).name, *words, file=calls)
if "--generate" in words:
    with open(value("--file"), "wb") as data:
        data.truncate(int(value("--bytes").removesuffix("MiB")) << 20)
if "--build-only" in words:
    with open(value("--graph"), "wb") as graph:
        graph.truncate(400 << 20)
rate, time = (1.0, 2.0) if value("--system") == "mmap" else (2.0, 1.0)
stages = {{"total": {{"count": 5, "p50_ns": 1023, "p99_ns": 2047}}}}
print(json.dumps({{"seconds": time, "microseconds_mean": time, "cpu_microseconds_per_fault": time,
                  "operations_per_second": rate, "bytes_per_second": rate, "read_bytes": 3 << 20,
                  "verified": os.environ.get("WRONG") != value("--system"), "statistics": {{"stages": stages}}}}))
"""


def row(*labels, median=None, **last):
    """A case as it was measured; without a median it failed."""
    summary = {"median": median, "min": median * 0.9, "max": median * 1.1, "runs": 3} if median else None
    problem = None if median else "exit code 1: no luck"
    return {"labels": list(labels), "summary": summary, "last": last, "problem": problem}


def table(*rows, title="one pass", unit="bytes/s", better="more", **more):
    return {"title": title, "metric": "any", "unit": unit, "better": better, "rows": list(rows), **more}


def scenario(*tables, **changed):
    return {"tables": list(tables), "skipped": [], "problem": None, "repetitions": 3, "data_bytes": 1 << 30,
            "machine": MACHINE, **changed}


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "docs/benchmarks.md"

    def lines(self, **scenarios_by_name):
        with mock.patch.dict(sys.modules, {"matplotlib": None}):
            benchmarks_page.write({"scenarios": {name.replace("_", "-"): found
                                                 for name, found in scenarios_by_name.items()}}, self.path)
        return self.path.read_text().splitlines()

    def verdicts(self, **scenarios_by_name):
        """(case, best of ours, rival, times as good) of each line of the summary."""
        lines = self.lines(**scenarios_by_name)
        first = lines.index("|---|---|---|---|---|") + 1
        return [tuple(line.split(" | ")[1:4]) + (line.split(" | ")[4].removesuffix(" |"),)
                for line in lines[first:lines.index("", first)]]

    def test_a_table_has_a_line_for_each_case_and_says_what_failed(self):
        lines = self.lines(sequential_read=scenario(table(
            row("tiermap", median=2_000_000_000.0, cpu_seconds=1.25, read_bytes=1 << 30, group_peak_bytes=256 * MIB),
            row("mmap normal", user_seconds=0.5, system_seconds=0.25))))
        at = lines.index("### Sequential read, cold: one pass") + 2
        self.assertEqual(lines[at:at + 5], [
            "| system | median rate | least | most | runs | CPU s | read | peak memory |",
            "|---|---|---|---|---|---|---|---|",
            "| tiermap | 2,000 MB/s | 1,800 MB/s | 2,200 MB/s | 3 | 1.2 | 1 GiB | 256 MiB |",
            "| mmap normal | exit code 1: no luck |  |  | 0 | 0.8 |  |  |",
            ""])

    def test_threads_are_a_column_of_their_own(self):
        lines = self.lines(sort=scenario(table(row("tiermap", 8, median=1.5), title="threads", unit="s",
                                               better="less")))
        self.assertIn("| system | threads | median s | least | most | runs | CPU s | read | peak memory |", lines)
        self.assertIn("| tiermap | 8 | 1.50 | 1.35 | 1.65 | 3 |  |  |  |", lines)

    def test_stages_and_limits_are_told(self):
        stages = {"total": {"count": 1234, "p50_ns": 4095, "p99_ns": 8191}, "read": {"count": 0}}
        lines = self.lines(
            fault_latency=scenario(table(row("tiermap notify", 2, median=4.0, statistics={"stages": stages},
                                             cpu_microseconds_per_fault=3.5), title="room for all", unit="us")),
            breadth_first_search=scenario(table(row("tiermap", median=1.0), title="ratio 4", data_bytes=1 << 30,
                                                limit_bytes=256 * MIB)))
        self.assertIn("| room for all | tiermap notify | 2 | total | 1,234 | 4.09 | 8.19 | 3.50 |", lines)
        self.assertIn("### Breadth-first search: ratio 4 (1 GiB of data, limit 256 MiB)", lines)

    def test_what_was_skipped_failed_or_not_measured_is_said(self):
        lines = self.lines(sort=scenario(skipped=[("mmap", "no control group")], problem="the disk is full"))
        self.assertIn("Skipped: mmap: no control group.", lines)
        self.assertIn("This scenario failed: the disk is full", lines)
        self.assertEqual(lines.count("Not measured yet."), len(benchmarks_page.SECTIONS) - 1)
        self.assertIn("Machine: Abacus, 2 cores, 8 GiB of memory, Linux 6.1, Debian.", lines)

    def test_what_is_written_by_hand_stays(self):
        by_hand = ["# Why", "", "Because."]
        lines = self.lines()
        begin, end = map(lines.index, benchmarks_page.BY_HAND)
        self.path.write_text("\n".join(lines[:begin + 1] + by_hand + lines[end:]))
        for _ in range(2):
            lines = self.lines()
            begin, end = map(lines.index, benchmarks_page.BY_HAND)
            self.assertEqual(lines[begin + 1:end], by_hand)

    def test_the_best_of_ours_is_set_against_the_best_of_each_rival(self):
        rows = (row("tiermap slow", median=30.0), row("tiermap fast", median=60.0), row("mmap normal", median=20.0),
                row("mmap random", median=40.0), row("read(), O_DIRECT", median=30.0), row("mmap failed"))
        self.assertEqual(self.verdicts(sequential_read=scenario(table(*rows))), [
            ("one pass", "tiermap fast", "mmap random", "1.50"),
            ("one pass", "tiermap fast", "read(), O_DIRECT", "2.00")])

    def test_where_less_is_better_the_ratio_is_the_rivals_time_over_ours(self):
        rows = (row("tiermap slow", median=3.0), row("tiermap fast", median=2.0), row("mmap normal", median=8.0),
                row("mmap random", median=6.0))
        self.assertEqual(self.verdicts(sort=scenario(table(*rows, unit="s", better="less"))),
                         [("one pass", "tiermap fast", "mmap random", "3.00")])

    def test_each_number_of_threads_is_compared_by_itself(self):
        rows = (row("tiermap", 2, median=2.0), row("tiermap", 8, median=4.0), row("mmap", 2, median=6.0),
                row("mmap", 8, median=16.0))
        self.assertEqual(self.verdicts(sort=scenario(table(*rows, title="threads", unit="s", better="less"))),
                         [("threads, 2 threads", "tiermap", "mmap", "3.00"),
                          ("threads, 8 threads", "tiermap", "mmap", "4.00")])

    def test_the_word_follows_from_the_aim(self):
        def said(name, title, rival, ratio):
            found = scenario(table(row("tiermap", median=ratio * 1000), row(rival, median=1000.0), title=title))
            return self.verdicts(**{name: found})[0][3]

        for name, title, rival, ratio, expected in (
                ("sequential_read", "one pass", "mmap sequential", 0.952, "0.95 (within the aim)"),
                ("sequential_read", "one pass", "read(), O_DIRECT", 0.94, "0.94 (loss)"),
                ("sequential_read", "one pass", "mmap normal", 1.0, "1.00"),
                ("random_reads", "4KiB blocks, 1 threads", "fio, io_uring", 0.9, "0.90 (within the aim)"),
                ("random_reads", "4KiB blocks, 1 threads", "fio, io_uring", 0.89, "0.89 (loss)"),
                ("random_reads", "4KiB blocks, 1 threads", "mmap random", 0.98, "0.98 (loss)"),
                ("random_reads", "4KiB blocks, 1 threads", "pread, O_DIRECT", 0.98, "0.98 (loss)"),
                ("sort", "page sizes, 2 threads", "mmap normal", 2.5, "2.50"),
                ("sort", "page sizes, 2 threads", "mmap normal", 2.4, "2.40 (short of the aim)"),
                ("breadth_first_search", "ratio 4", "mmap normal", 1.4, "1.40 (short of the aim)"),
                ("breadth_first_search", "ratio 2", "mmap normal", 0.9, "0.90 (loss)"),
                ("breadth_first_search", "all fits", "mmap normal, warm", 1.4, "1.40"),
                ("breadth_first_search", "all fits", "memory, warm", 0.96, "0.96 (within the aim)")):
            self.assertEqual(said(name, title, rival, ratio), expected, f"{name}: {title}, {rival}")

    def test_every_aim_is_one_of_a_scenario_that_is_measured(self):
        sections = [section[0] for section in benchmarks_page.SECTIONS]
        self.assertEqual(sorted(sections), sorted(scenarios.SCENARIOS))
        for key, _, _, _ in benchmarks_page.AIMS:
            self.assertIn(key, sections)


class Run(unittest.TestCase):
    """The whole of it, with pretenders for programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin, self.output = pathlib.Path(folder.name) / "bin", pathlib.Path(folder.name) / "output"
        self.bin.mkdir()
        for name in ("bench-random_read", "bench-sequential_read", "bench-fault_latency", "tiermap-sort",
                     "tiermap-bfs"):
            (self.bin / name).write_text(PRETENDER.format(python=sys.executable))
            (self.bin / name).chmod(0o755)
        for where, name, value in (
                (run, "GIB", 0), (run, "unwind_on_signals", lambda: None),
                (run, "limit_reason", lambda: "not permitted"),
                (scenarios, "loop_disk", mock.Mock(side_effect=DeviceUnavailable("no loop devices"))),
                (scenarios.shutil, "which", lambda _: None)):
            self.replace(mock.patch.object(where, name, value))
        self.replace(mock.patch.dict(os.environ, {"TIERMAP_BENCH_DROP_CACHES": "0"}))
        self.replace(mock.patch.dict(sys.modules, {"matplotlib": None}))

    def replace(self, patch):
        patch.start()
        self.addCleanup(patch.stop)

    def bench(self, *arguments):
        """Runs it with small sizes; returns the exit code and the results. The scratch folder has to be gone."""
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()), \
                mock.patch.object(sys, "argv", ["run.py", "--quick", "--bin", str(self.bin), "--output",
                                                str(self.output), *arguments]):
            code = run.main()
        self.assertEqual(list(self.output.glob("scratch-*")), [])
        results = self.output / "results-quick.json"
        return code, json.loads(results.read_text())["scenarios"] if results.exists() else {}

    def page(self):
        return (self.output / "benchmarks.md").read_text()

    def test_every_scenario_is_measured_and_on_the_page(self):
        code, results = self.bench()
        self.assertEqual(code, 0)
        self.assertEqual(set(results), set(scenarios.SCENARIOS))
        for name, found in results.items():
            self.assertIsNone(found["problem"], name)
            self.assertTrue(found["tables"], name)
            for case in (case for measured in found["tables"] for case in measured["rows"]):
                self.assertEqual(case["summary"]["runs"], 1, f"{name}: {case}")
                self.assertFalse(case["labels"][0].startswith("mmap"), f"{name}: no limit, and {case}")
        self.assertNotIn("Not measured yet", self.page())
        self.assertIn("Skipped: one pass: mmap normal: not permitted.", self.page())
        self.assertIn("Skipped: random reads: fio: fio is not installed.", self.page())

    def test_one_scenario_anew_keeps_the_others_and_a_wrong_result_is_said(self):
        self.bench("--only", "sequential-read")
        with mock.patch.dict(os.environ, {"WRONG": "tiermap"}):
            code, results = self.bench("--only", "sort")
        self.assertEqual(code, 0)
        self.assertEqual(set(results), {"sequential-read", "sort"})
        wrong = results["sort"]["tables"][0]["rows"][0]
        self.assertEqual((wrong["summary"], wrong["problem"]), (None, "wrong result"))
        self.assertIn("| tiermap, 1MiB pages | wrong result |", self.page())

    def test_all_systems_run_under_the_same_limit(self):
        limits = []

        class NoLimit:
            def __init__(self, limit_bytes):
                limits.append(limit_bytes)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                return None

            def start(self, command, **streams):
                return subprocess.Popen(command, start_new_session=True, **streams)

            def peak_bytes(self):
                return None

        with mock.patch("measurement.MemoryLimit", NoLimit), mock.patch.object(run, "limit_reason", lambda: None):
            code, results = self.bench("--only", "sequential-read")
        self.assertEqual(code, 0)
        cases = [case["labels"][0] for case in results["sequential-read"]["tables"][0]["rows"]]
        self.assertEqual(limits, [128 * MIB] * len(cases))
        self.assertTrue(any(case.startswith("mmap") for case in cases), cases)
        calls = (self.bin / "calls").read_text().splitlines()
        budgets = {call.split("--budget ")[1].split()[0] for call in calls if "--budget" in call}
        self.assertEqual(budgets, {"104MiB", "64MiB"})
        self.assertIn("| mmap normal | 2.00 |", self.page())

    def test_rendering_measures_nothing_and_ends_with_1_if_a_scenario_failed(self):
        self.output.mkdir()
        for problem, expected in ((None, 0), ("no disk", 1)):
            (self.output / "results-quick.json").write_text(
                json.dumps({"scenarios": {"sort": scenario(problem=problem)}}))
            self.assertEqual(self.bench("--render")[0], expected)
        self.assertIn("This scenario failed: no disk", self.page())
        self.assertFalse((self.bin / "calls").exists())

    def test_an_interruption_keeps_what_was_finished_and_ends_with_130(self):
        with mock.patch.dict(scenarios.SCENARIOS, {"sort": mock.Mock(side_effect=Interrupted("SIGTERM"))}):
            code, results = self.bench("--only", "sequential-read", "--only", "sort")
        self.assertEqual(code, 130)
        self.assertEqual(set(results), {"sequential-read"})


if __name__ == "__main__":
    unittest.main()
