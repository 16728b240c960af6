#!/usr/bin/env python3
"""`make bench` with programs that only pretend: what is run, under which limit, how often, and what is kept of it."""
import contextlib
import io
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
import cases  # noqa: E402
import door_scenarios  # noqa: E402
import engine_scenarios  # noqa: E402
import peers  # noqa: E402
import ranks_scenarios  # noqa: E402
import remote_scenarios  # noqa: E402
import run  # noqa: E402
import runner  # noqa: E402
import sort_scenarios  # noqa: E402
import vector_scenarios  # noqa: E402
from devices import DeviceUnavailable  # noqa: E402
from measurement import MIB, Interrupted  # noqa: E402
from results import ResultFolder  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

PROGRAMS = {name for scenario in SCENARIOS.values() for name in scenario.programs}

# Stands for every program: notes how it was called, makes the files that are looked for, and says what it measured.
PRETENDER = """#!/bin/sh
case " $* " in *" --help "*) echo "--traversal --state --heap"; exit;; esac
echo "${0##*/} $*" >>"${0%/*}/calls"
case " $* " in *" serve --listen "*) echo "listening on 127.0.0.1:7070, 0 data sets"; exec sleep 60;; esac
made= file= system= whole=
while [ $# -gt 0 ]; do
  case $1 in
    --system) system=$2 ;;
    --file) file=$2 ;;
    --graph | --database) made=$2 ;;
    --keep | generate) whole=yes ;;
    --generate) whole=yes; [ -n "$2" ] && [ "$2" != --file ] && mkdir "$2" && : >"$2/reads.fastq" && whole= ;;
  esac
  shift
done
case $made in remote:*) made= ;; esac
[ -z "$made" ] || [ -e "$made" ] || truncate -s 1M "$made"
[ -z "$whole" ] || truncate -s 1M "$file"
: >"$TMPDIR/left-over"
[ "$SLOW" != "$system" ] || [ -z "$SLOW" ] || sleep 20
[ "$FAIL" != "$system" ] || [ -z "$FAIL" ] || { echo "no luck" >&2; exit 1; }
seconds=1 rate=2 right=true
[ "$system" != mmap ] || { seconds=2; rate=1; }
[ "$WRONG" != "$system" ] || [ -z "$WRONG" ] || right=false
cat <<END
{"seconds": $seconds, "microseconds_mean": $seconds, "cpu_microseconds_per_fault": $seconds, "operations": 6,
 "bytes_per_second": $rate, "vectors_per_second": $rate, "accesses_per_second": $rate,
 "lookups_per_second": $rate, "kmers_per_second": $rate, "bases_per_second": $rate,
 "allocate_cpu_nanoseconds": 5, "churn_cpu_nanoseconds": 5, "free_cpu_nanoseconds": 5, "close_milliseconds": 5,
 "open_milliseconds": 5, "allocate_milliseconds": 5, "checkpoint_milliseconds": 5, "edges": 6, "insert_seconds": 3,
 "scan_transaction_elements_per_second": $rate, "scan_memory_elements_per_second": $rate, "scan_coverage_percent": 95,
 "random_transaction_elements_per_second": $rate, "random_memory_elements_per_second": $rate,
 "random_coverage_percent": 95, "disk_bytes": 7, "taken_bytes": 8, "asked_bytes": 6,
 "user_seconds": 0.25, "system_seconds": 0.25, "edges_per_second": $rate, "teps": $rate, "faults": 5, "minor_faults": 7, "read_bytes": 3145728,
 "file": "$TMPDIR/data", "verified": $right}
END
"""


# Scenarios that need more than programs, and what they say without.
NOT_HERE = {"sort-read-ahead": "no loop devices", "unmodified": "lrzip is not installed",
            "language-model": "build/python/environment is not there",
            "python-gather": "build/python/environment is not there",
            "python-warm": "build/python/environment is not there", "kmeans-spark": "build/spark is not there",
            "forest-spark": "build/spark is not there", "kmeans-spark-ranks": "build/spark is not there",
            "forest-spark-ranks": "build/spark is not there", "weak-scaling": "it is not installed: package mpich",
            "ranks-wire": "it is not installed: package mpich", "shared-phases": "it is not installed: package mpich",
            "false-sharing": "it is not installed: package mpich", "remote-reads": "it is not installed: package ucx-utils"}


class NoLimit:
    """Stands for a control group."""
    limits = []

    def __init__(self, limit_bytes):
        self.limits.append(limit_bytes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def start(self, command, **streams):
        return subprocess.Popen(command, start_new_session=True, **streams)

    def peak_bytes(self):
        return None


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin, self.output = self.folder / "bin", self.folder / "output"
        self.bin.mkdir()
        for name in PROGRAMS:
            self.pretend(self.bin / name)
        NoLimit.limits.clear()
        for where, name, value in (
                (run, "GIB", 0), (run, "unwind_on_signals", lambda: None), (run, "limit_reason", lambda: None),
                (runner, "busy_share", lambda: 0.1), (sort_scenarios, "read_ahead_kib", lambda _: 4096),
                (sort_scenarios, "loop_disk", mock.Mock(side_effect=DeviceUnavailable("no loop devices"))),
                (engine_scenarios, "have", lambda _: False), (door_scenarios, "have", lambda _: False),
                (door_scenarios, "NUMPY_PYTHON", self.folder / "no-python"),
                (remote_scenarios, "shutil", mock.Mock(which=lambda _: None)),
                (ranks_scenarios, "have", lambda _: False),
                (vector_scenarios, "SPARK_PYTHON", self.folder / "no-spark")):
            self.replace(mock.patch.object(where, name, value))
        self.replace(mock.patch("measurement.MemoryLimit", NoLimit))
        self.replace(mock.patch.dict(os.environ, {"TIERMAP_BENCH_DROP_CACHES": "0"}))
        # A machine with much else to do takes seconds to start a program.
        self.replace(mock.patch.dict(runner.LEAST_TIMEOUT, quick=15))
        self.replace(mock.patch.dict(sys.modules, {"matplotlib": None}))

    def pretend(self, path):
        # A name that leads out of the folder would overwrite a program of this machine.
        self.assertTrue(path.is_relative_to(self.folder), path)
        path.write_text(PRETENDER)
        path.chmod(0o755)

    def replace(self, patch):
        patch.start()
        self.addCleanup(patch.stop)

    def bench(self, *arguments, **environment):
        """Runs it with small sizes; returns the exit code. The scratch folder has to be gone afterwards."""
        self.said = io.StringIO()
        scratch = self.folder / "scratch"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(self.said), \
                mock.patch.dict(os.environ, environment), \
                mock.patch.object(sys, "argv", ["run.py", "--quick", "--bin", str(self.bin), "--output",
                                                str(self.output), "--scratch", str(scratch), *arguments]):
            code = run.main()
        self.assertEqual(list(scratch.glob("*")), [])
        return code

    def lines(self, scenario, kind="run"):
        return [line for line in ResultFolder(self.output).read(scenario) if line["kind"] == kind]

    def calls(self):
        return (self.bin / "calls").read_text().splitlines()

    def page(self):
        return (self.output / "report.md").read_text()


class Measuring(Bench):
    def test_every_scenario_is_measured_and_on_the_page(self):
        self.assertEqual(self.bench("--repetitions", "1", "--seconds", "3000"), 0)
        for name in SCENARIOS:
            found = self.lines(name)
            if name in NOT_HERE:
                self.assertTrue(self.lines(name, "skipped")[0]["reason"].startswith(NOT_HERE[name]), name)
                continue
            self.assertTrue(found, name)
            self.assertEqual([line["series"] for line in found if line["failed"]], [], name)
            self.assertFalse(self.lines(name, "cut"), name)
        self.assertNotIn("not measured yet", self.page())
        self.assertNotIn("Ended early", self.page())
        self.assertIn("Skipped: fio: fio is not installed.", self.page())

    def test_runs_take_turns_and_each_line_can_be_run_again(self):
        self.assertEqual(self.bench("--only", "sequential-read"), 0)
        found = self.lines("sequential-read")
        names = [line["series"] for line in found if line["repetition"] == 1]
        self.assertEqual([line["series"] for line in found], names * 3)
        line = found[0]
        self.assertEqual(line["command"][:5], ["bench-sequential_read", "--system", "tiermap", "--file",
                                               "SCRATCH/shared-data"])
        self.assertEqual(line["result"]["file"], "SCRATCH/data")
        self.assertEqual((line["value"], line["limit_bytes"], line["quiet"]), (2.0, 64 * MIB, True))
        self.assertTrue({"machine", "time", "commit", "wall_seconds", "environment"} <= set(line))
        about = self.lines("sequential-read", "about")[0]
        self.assertEqual(about["setup"][0][:3], ["bench-random_read", "--generate", "--file"])

    def test_all_systems_run_under_the_same_limit_and_tiermaps_budget_is_inside(self):
        self.assertEqual(self.bench("--only", "search", "--only", "sort-threads"), 0)
        # The limit less 14 MiB and 1/128 of the data: search has a file of 1 MiB here, sort 128 MiB.
        for name, limit, budget in (("search", 64, "51192KiB"), ("sort-threads", 48, "33MiB")):
            self.assertEqual({line["limit_bytes"] for line in self.lines(name)}, {limit * MIB}, name)
            self.assertIn(limit * MIB, NoLimit.limits)
            budgets = {line["command"][line["command"].index("--budget") + 1] for line in self.lines(name)}
            self.assertEqual(budgets, {budget}, name)

    def test_mmap_is_tried_with_every_advice_and_the_best_is_named(self):
        self.bench("--only", "random-io-read", "--repetitions", "1")
        self.assertEqual({line["series"] for line in self.lines("random-io-read") if line["system"] == "mmap"},
                         {"mmap normal", "mmap random", "mmap sequential"})
        self.assertIn("| Random accesses, read-only | 2 threads | tiermap self-serving | mmap random | 2.00 |",
                      self.page())

    def test_without_a_limit_only_tiermap_and_direct_io_run(self):
        with mock.patch.object(run, "limit_reason", lambda: "not permitted"):
            self.bench("--only", "random-io-read", "--repetitions", "1")
        self.assertEqual({line["system"] for line in self.lines("random-io-read")}, {"tiermap", "direct"})
        self.assertIn({"scenario": "random-io-read", "kind": "skipped", "what": "mmap normal",
                       "reason": "not permitted"}, self.lines("random-io-read", "skipped"))

    def test_a_program_or_an_option_that_is_not_there_is_named(self):
        (self.bin / "tiermap-search").unlink()
        (self.bin / "tiermap-bfs").write_text("#!/bin/sh\necho --json\n")
        self.assertEqual(self.bench("--only", "search", "--only", "bfs-semi-external"), 0)
        self.assertIn("Scenario `search`: not measured: tiermap-search is not built.", self.page())
        self.assertIn("not measured: tiermap-bfs has no option --traversal", self.page())
        self.assertIn("[2/2] search: skipped: tiermap-search is not built", self.said.getvalue())

    def test_what_was_measured_stays_when_a_program_is_not_there_any_more(self):
        self.bench("--only", "sequential-read", "--repetitions", "1")
        before = self.lines("sequential-read")
        (self.bin / "bench-sequential_read").unlink()
        self.bench("--only", "sequential-read")
        self.assertEqual(self.lines("sequential-read"), before)

    def test_what_was_measured_stays_when_nothing_can_be_run_any_more(self):
        self.bench("--only", "sequential-read", "--repetitions", "1")
        before = self.lines("sequential-read")
        maker = self.bin / "bench-random_read"
        for script, seconds, code in (("echo no disk >&2; exit 1", "800", 1), ("sleep 20", "1", 0)):
            maker.write_text(f"#!/bin/sh\n{script}\n")
            self.assertEqual(self.bench("--only", "sequential-read", "--seconds", seconds), code)
            self.assertEqual(self.lines("sequential-read"), before)
        store = ResultFolder(self.output)
        store.rewrite("sort-read-ahead", [{**line, "scenario": "sort-read-ahead"} for line in before])
        self.assertEqual(self.bench("--only", "sort-read-ahead"), 0)
        self.assertEqual(len(self.lines("sort-read-ahead")), len(before))
        self.assertIn("sort-read-ahead: skipped: no loop devices", self.said.getvalue())

    def test_wrong_and_failed_runs_are_said_and_not_repeated(self):
        self.bench("--only", "sort-page-size", WRONG="tiermap", FAIL="mmap")
        self.assertEqual({(line["system"], line["failed"]) for line in self.lines("sort-page-size")},
                         {("tiermap", "wrong result"), ("mmap", "exit code 1: no luck")})
        self.assertEqual({line["repetition"] for line in self.lines("sort-page-size")}, {1})
        self.assertIn("wrong result", (self.output / "report-tables.md").read_text())

    def test_data_that_cannot_be_made_is_a_problem_and_the_rest_goes_on(self):
        (self.bin / "bench-random_read").write_text("#!/bin/sh\necho no disk >&2\nexit 1\n")
        self.assertEqual(self.bench("--only", "sequential-read", "--only", "sort-page-size"), 1)
        self.assertIn("no data: exit code 1: no disk", self.page())
        self.assertTrue(self.lines("sort-page-size"))


class Time(Bench):
    def test_a_scenario_that_would_overrun_is_cut_and_said_to_be(self):
        self.replace(mock.patch.object(cases.Bench, "make", lambda *_: MIB))
        self.assertEqual(self.bench("--only", "sequential-read", "--seconds", "1.5", SLOW="mmap"), 0)
        cut = self.lines("sequential-read", "cut")[0]
        self.assertEqual(cut["repetition"], 1)
        self.assertGreater(cut["cases_without_a_run"], 0)
        self.assertTrue(any(line["system"] == "tiermap" for line in self.lines("sequential-read")))
        self.assertIn("Cut after", self.page())
        self.assertIn("its time was up", self.said.getvalue())

    def test_data_that_takes_too_long_is_no_problem_of_the_scenario(self):
        (self.bin / "bench-random_read").write_text("#!/bin/sh\nsleep 20\n")
        self.assertEqual(self.bench("--only", "sequential-read", "--seconds", "1"), 0)
        self.assertIn("Not measured: no time was left to make its data.", self.page())

    def test_what_tells_most_is_run_first(self):
        self.bench("--only", "sort-threads", "--repetitions", "1")
        self.assertEqual([(line["system"], line["x"]) for line in self.lines("sort-threads")][:4],
                         [("tiermap", 2), ("mmap", 2), ("tiermap", 64), ("mmap", 64)])

    def test_an_advice_that_is_hopeless_is_not_measured_to_its_end(self):
        self.replace(mock.patch.dict(runner.LEAST_TIMEOUT, quick=0.3))
        (self.bin / "tiermap-sort").write_text(
            "#!/bin/sh\ncase \"$*\" in *'mmap'*'random'*) sleep 20;; esac\necho '{\"seconds\": 1}'\n")
        self.bench("--only", "sort-page-size")
        failed = {line["series"]: line["failed"] for line in self.lines("sort-page-size") if line["failed"]}
        self.assertEqual(set(failed), {"mmap random, hints", "mmap random"})
        self.assertIn("the best mmap here took", failed["mmap random, hints"])

    def test_a_quick_run_does_not_repeat_an_advice_that_is_beaten(self):
        (self.bin / "tiermap-sort").write_text(
            "#!/bin/sh\ncase \"$*\" in *mmap*random*) seconds=2;; esac\necho \"{\\\"seconds\\\": ${seconds:-1}}\"\n")
        self.bench("--only", "sort-page-size")
        runs = [line["series"] for line in self.lines("sort-page-size")]
        self.assertEqual({name: runs.count(name) for name in runs if name.startswith("mmap")},
                         {"mmap sequential, hints": 3, "mmap normal, hints": 3, "mmap random, hints": 1,
                          "mmap random": 1, "mmap normal": 3, "mmap sequential": 3})

    def test_mmap_is_tried_with_a_programs_hints_and_without(self):
        with_hints = ("bfs-fully-external", "kmer-lookup", "sort-page-size")
        for scenario in with_hints:
            listed = SCENARIOS[scenario].cases(cases.Bench("none", "none", "aims", dry=True))
            ways = {case.series: "off" in case.command for case in listed if case.system == "mmap"}
            self.assertEqual(ways, {f"mmap {advice}{hints}": not hints for advice in ("random", "normal", "sequential")
                                    for hints in ("", ", hints")}, scenario)

    def test_mmap_searches_turn_where_tiermaps_do(self):
        for scenario in ("bfs-page-size", "bfs-threads", "bfs-memory", "bfs-scale"):
            listed = SCENARIOS[scenario].cases(cases.Bench("none", "none", "aims", dry=True))
            turning = {(case.panel, case.limit, case.system) for case in listed if "alternate" in case.command}
            ours = {place[:-1] for place in turning if place[-1] == "tiermap"}
            self.assertTrue(ours, scenario)
            self.assertEqual(ours, {place[:-1] for place in turning if place[-1] == "mmap"}, scenario)

    def interrupted(self, after, *arguments):
        """Ends the measurement after so many runs."""
        real, count = runner.measured, [0]

        def measured(report, case):
            count[0] += 1
            if count[0] > after:
                raise Interrupted("SIGINT")
            return real(report, case)
        with mock.patch.object(runner, "measured", measured):
            return self.bench("--only", "sequential-read", *arguments)

    def test_an_interruption_keeps_what_was_measured_and_continuing_makes_the_rest(self):
        self.assertEqual(self.interrupted(after=5), 130)
        kept = self.lines("sequential-read")
        self.assertEqual(len(kept), 5)
        self.assertIn("| tiermap, 1MiB pages, normal |", (self.output / "report-tables.md").read_text())
        self.assertEqual(self.bench("--only", "sequential-read", "--continue"), 0)
        every = self.lines("sequential-read")
        self.assertEqual(every[:5], kept)
        self.assertEqual(len(every), 21)

    def test_continuing_drops_runs_that_would_be_others_now(self):
        self.interrupted(after=5)
        with mock.patch.object(engine_scenarios, "overhead", lambda _: 10 * MIB):
            self.assertEqual(self.bench("--only", "sequential-read", "--continue"), 0)
        found = self.lines("sequential-read")
        self.assertEqual(len(found), 21)
        self.assertEqual({line["command"][line["command"].index("--budget") + 1] for line in found}, {"54MiB"})

    def test_an_interruption_in_the_only_round_is_said(self):
        self.interrupted(5, "--repetitions", "1")
        self.assertIn("Ended early, after 5 runs", self.page())
        self.bench("--only", "sequential-read", "--repetitions", "1", "--continue")
        self.assertNotIn("Ended early", self.page())

    def test_continuing_without_data_keeps_what_was_measured(self):
        self.interrupted(after=5)
        kept = self.lines("sequential-read")
        self.assertIn("Ended early, after 5 runs", self.page())
        maker = (self.bin / "bench-random_read").read_text()
        (self.bin / "bench-random_read").write_text("#!/bin/sh\necho no disk >&2\nexit 1\n")
        self.assertEqual(self.bench("--only", "sequential-read", "--continue"), 1)
        self.assertEqual(self.lines("sequential-read"), kept)
        (self.bin / "bench-random_read").write_text(maker)
        self.bench("--only", "sequential-read", "--continue")
        self.assertEqual(self.lines("sequential-read")[:5], kept)
        self.assertNotIn("Ended early", self.page())

    def test_rendering_measures_nothing(self):
        self.bench("--only", "sequential-read", "--repetitions", "1")
        page, calls = self.page(), self.calls()
        (self.output / "report.md").unlink()
        self.assertEqual(self.bench("--render"), 0)
        self.assertEqual((self.page(), self.calls()), (page, calls))

    def test_one_scenario_anew_keeps_the_others_and_replaces_its_own(self):
        self.bench("--only", "sequential-read", "--repetitions", "1")
        self.bench("--only", "sort-page-size", "--repetitions", "1")
        before = self.lines("sequential-read")
        self.bench("--only", "sort-page-size", "--repetitions", "2")
        self.assertEqual(self.lines("sequential-read"), before)
        self.assertEqual(len(self.lines("sort-page-size")), 2 * 8)

    def test_in_a_pipe_a_scenario_is_one_line(self):
        self.bench("--only", "sequential-read", "--repetitions", "1")
        self.assertEqual([line.split(": ")[0] for line in self.said.getvalue().splitlines()
                          if "matplotlib" not in line], ["[1/1] sequential-read"])


class SeveralProcesses(Bench):
    def test_clients_of_one_database_are_one_run_each_number_of_them(self):
        self.assertEqual(self.bench("--only", "kmer-clients", "--repetitions", "1"), 0)
        found = self.lines("kmer-clients")
        # Each of them does six in a second.
        self.assertEqual({line["x"]: line["value"] for line in found}, {1: 6, 2: 12, 4: 24})
        calls = [call for call in self.calls() if "--work lookup" in call]
        self.assertEqual(len(calls), 1 + 2 + 4)
        loads = [call for call in self.calls() if call.startswith("tiermap serve load ")]
        self.assertEqual(len(loads), 3)

    def cases(self, name):
        return SCENARIOS[name].cases(cases.Bench(self.bin, "SCRATCH", "aims", dry=True))

    def test_plain_mpi_has_as_many_ranks_and_as_much_work_and_no_server(self):
        for name in ("weak-scaling", "ranks-wire"):
            pairs = {}
            for case in self.cases(name):
                pairs.setdefault((case.panel, case.x), {})[case.system] = case
            for place, pair in pairs.items():
                self.assertEqual(set(pair), {"tiermap", "mpi"}, place)
                words = {system: [str(word) for word in case.command] for system, case in pair.items()}
                for option in ("--ranks", "--size", "--steps", "--neighbours"):
                    self.assertEqual(*({word: words[system][place + 1] for place, word in enumerate(words[system])
                                        if word == option} for system in pair), (name, option))
                self.assertNotIn("--servers", words["mpi"])
                self.assertEqual(words["tiermap"][words["tiermap"].index("--servers") + 1], str(place[1]))

    def test_ranks_beside_sparks_workers_have_a_quarter_of_their_memory(self):
        for name in ("kmeans-spark-ranks", "forest-spark-ranks"):
            ours, theirs = self.cases(name)
            self.assertEqual((ours.system, theirs.system), ("tiermap", "spark"))
            self.assertEqual(4 * ours.limit, theirs.limit)
            self.assertIn("--workers", theirs.command)

    def test_where_there_are_no_nodes_their_bytes_are_not_counted_and_that_is_said(self):
        self.replace(mock.patch.object(ranks_scenarios, "have", lambda _: True))
        self.replace(mock.patch.object(ranks_scenarios, "reason_without_nodes", lambda: "network namespaces need root"))
        self.assertEqual(self.bench("--only", "ranks-wire"), 0)
        self.assertEqual(self.lines("ranks-wire", "skipped")[0]["reason"], "network namespaces need root")


class Peers(Bench):
    def test_a_peer_is_one_more_system_with_the_same_arguments_and_limit(self):
        theirs = self.folder / "peer"
        theirs.mkdir()
        self.pretend(theirs / "other-sort")
        self.bench("--only", "sort-page-size", "--repetitions", "1", "--peer", f"other={theirs}/other-{{program}}")
        lines = self.lines("sort-page-size")
        found = [line for line in lines if line["system"] == "other"]
        ours = [line for line in lines if line["system"] == "tiermap"]
        self.assertEqual([(line["series"], line["x"], line["limit_bytes"]) for line in found],
                         [("other", line["x"], line["limit_bytes"]) for line in ours])
        self.assertEqual((theirs / "calls").read_text().splitlines()[0].split()[1:],
                         [word.replace("tiermap", "other") for word in ours[0]["command"][1:]])
        self.assertIn("| Sort: page sizes |", self.page())
        self.assertTrue(any("| other |" in line for line in self.page().splitlines()))

    def test_a_peer_may_be_a_command_with_words_of_its_own(self):
        theirs = self.folder / "peer.sh"
        self.pretend(theirs)
        command = shlex.join(["sh", str(theirs), "--as", "x"]) + " {program}"
        self.bench("--only", "random-io-optimisations", "--only", "sequential-read", "--repetitions", "1", "--peer",
                   f"other={command}")
        self.assertTrue([line for line in self.lines("sequential-read") if line["system"] == "other"])
        # Its cases vary settings that only Tiermap has.
        self.assertFalse([line for line in self.lines("random-io-optimisations") if line["system"] == "other"])

    def test_a_peer_without_this_program_is_skipped_by_name(self):
        self.bench("--only", "sort-page-size", "--repetitions", "1", "--peer", "other=/nowhere/{program}")
        self.assertIn("Skipped: other: /nowhere/sort is not there.", self.page())

    def test_a_peer_that_makes_no_sense_is_refused(self):
        for text in ("umap", "umap=", "Umap=x", "mmap=x", "=x", "a b=x", "umap='x"):
            with self.assertRaises(peers.BadPeer, msg=text):
                peers.Peer.parse(text)

    def test_a_peer_has_a_name_of_its_own(self):
        listed = SCENARIOS.values()
        bench = cases.Bench(self.bin, "SCRATCH", "full", dry=True)
        for system in {case.system for scenario in listed for case in scenario.cases(bench)}:
            with self.assertRaises(peers.BadPeer, msg=system):
                peers.Peer.parse(f"{system}=x")
        with self.assertRaises(SystemExit):
            self.bench("--only", "sort-page-size", "--peer", "other=x", "--peer", "other=y")
        self.assertIn("two peers are called other", self.said.getvalue())

    def test_a_peers_files_are_found_from_where_the_measurement_is_started(self):
        theirs = self.folder / "peer"
        theirs.mkdir()
        self.pretend(theirs / "sort")
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self.bench("--only", "sort-page-size", "--repetitions", "1", "--peer", "one=peer/{program}", "--peer",
                   "other=sh peer/{program} {program}")
        for name in ("one", "other"):
            found = [line for line in self.lines("sort-page-size") if line["system"] == name]
            self.assertTrue(found)
            self.assertEqual({line["failed"] for line in found}, {None})


if __name__ == "__main__":
    unittest.main()
