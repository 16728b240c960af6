#!/usr/bin/env python3
"""The page of benchmarks: what it says of results that are made up, and that the committed page is what the committed
results give. The files of results: a torn line, a replaced scenario."""
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path.insert(0, str(ROOT / "bench"))
# Nothing is to be written into the source tree.
sys.dont_write_bytecode = True
import aims  # noqa: E402
import benchmarks_page  # noqa: E402
import paper_figures  # noqa: E402
import plots  # noqa: E402
import recorded_policies  # noqa: E402
from comparison import Amount, Pick, Ratio, amount_of, ratio_of, worst_step  # noqa: E402
from measurement import MIB  # noqa: E402
from results import METRICS, ResultFolder, better_of, points_of, unit_of  # noqa: E402
from scenarios import SCENARIOS  # noqa: E402

MACHINE = {"processor": "Abacus", "cores": 2, "memory_bytes": 8 << 30, "kernel": "6.1", "system": "Debian",
           "read_ahead_kib": 128, "date": "2026-01-02"}


def runs(series, *values, system=None, x=None, panel="", metric="seconds", failed=None, **changed):
    """The lines of one case: a run for each value, or one that failed."""
    line = {"scenario": "any", "kind": "run", "panel": panel, "series": series, "system": system or series.split()[0],
            "x": x, "metric": metric, "unit": unit_of(metric), "better": better_of(metric), "failed": failed,
            "repetition": 1, "detail": "full", "command": ["program"], "environment": {}, "limit_bytes": 64 * MIB,
            "data_bytes": 256 * MIB, "wall_seconds": 1.0, "group_peak_bytes": None, "time": "2026-01-02T03:04:05Z",
            "commit": "abc", "quiet": True, "machine": MACHINE, "result": {}, **changed}
    return [{**line, "value": value} for value in values] or [{**line, "value": None}]


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class ResultFiles(Folder):
    def setUp(self):
        super().setUp()
        self.store = ResultFolder(self.folder / "results")

    def read(self):
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            return self.store.read("sort"), said.getvalue()

    def test_lines_come_back_as_they_were_added(self):
        lines = [{"kind": "run", "value": 1.5}, {"kind": "cut"}]
        for line in lines:
            self.store.append("sort", line)
        self.assertEqual(self.read(), (lines, ""))
        self.store.rewrite("sort", lines[1:])
        self.assertEqual(self.read(), (lines[1:], ""))
        self.assertEqual(self.store.scenarios(), ["sort"])

    def test_a_torn_last_line_is_left_out_and_the_next_one_takes_its_place(self):
        self.store.append("sort", {"value": 1})
        whole = self.store.path("sort").read_bytes()
        for torn in (b'{"value": 2', b'{', b'{"value": "\xc3'):
            self.store.path("sort").write_bytes(whole + torn)
            lines, said = self.read()
            self.assertEqual(lines, [{"value": 1}])
            self.assertIn("sort.jsonl:2: the last line is torn", said)
            self.store.append("sort", {"value": 3})
            self.assertEqual(self.read(), ([{"value": 1}, {"value": 3}], ""))

    def test_a_line_in_the_middle_that_is_no_json_was_edited_by_hand(self):
        self.store.append("sort", {"value": 1})
        self.store.path("sort").write_text('{"value": 1\n{"value": 2}\n')
        with self.assertRaises(SystemExit) as refused:
            self.read()
        self.assertIn("sort.jsonl:1 is no JSON", str(refused.exception))


class Ratios(unittest.TestCase):
    def test_the_best_of_each_side_counts_whatever_the_unit(self):
        seconds = runs("tiermap", 4.0, 2.0, 3.0) + runs("mmap random", 9.0) + runs("mmap normal", 6.0)
        self.assertEqual(ratio_of(seconds, Ratio()).value, 2.0)
        self.assertEqual(ratio_of(seconds, Ratio()).other.series, "mmap normal")
        rates = runs("tiermap", 3.0, metric="teps") + runs("mmap random", 2.0, metric="teps") + runs(
            "mmap normal", 1.0, metric="teps")
        self.assertEqual(ratio_of(rates, Ratio()).value, 1.5)

    def test_a_place_is_compared_with_the_same_place_or_with_what_holds_everywhere(self):
        lines = (runs("tiermap", 8.0, x=2) + runs("tiermap", 2.0, x=64) + runs("mmap", 4.0, x=2)
                 + runs("mmap", 6.0, x=64))
        self.assertEqual(ratio_of(lines, Ratio(Pick(x="highest"))).value, 3.0)
        self.assertEqual(ratio_of(lines, Ratio(Pick(x="lowest"))).value, 0.5)
        self.assertEqual(ratio_of(lines, Ratio()).value, 2.0)
        self.assertEqual(ratio_of(lines, Ratio(Pick(x=64), Pick("tiermap", x=2))).value, 4.0)
        self.assertIsNone(ratio_of(lines, Ratio(Pick(x=16))))
        everywhere = runs("tiermap", 8.0, x=2) + runs("mmap", 4.0)
        self.assertEqual(ratio_of(everywhere, Ratio(Pick(x=2))).value, 0.5)

    def test_what_a_process_measured_in_turn_is_compared_run_by_run(self):
        ours = runs("tiermap", 6.0, 30.0, 20.0, metric="teps")
        for run, other in zip(ours, (5.0, 20.0, 25.0)):
            run["result"] = {"other": other}
        lines = ours + runs("mmap", 1.0, metric="teps")
        found = ratio_of(lines, Ratio(within="other"))
        self.assertEqual((found.value, found.other.series, found.runs), (1.2, "mmap", 3))

    def test_an_amount_is_the_median_of_its_point_and_may_be_none_at_all(self):
        lines = (runs("local", 0.0, 0.0, system="tiermap", metric="coherence_messages")
                 + runs("shared", 32.0, system="tiermap", metric="coherence_messages"))
        found = amount_of(lines, Amount(Pick(series="local")))
        self.assertEqual((found.value, found.runs, found.date), (0, 2, "2026-01-02"))
        self.assertEqual(amount_of(lines, Amount(Pick(series="shared"))).value, 32)
        self.assertIsNone(amount_of(lines, Amount(Pick(series="read-only"))))
        self.assertIsNone(amount_of([], Amount()))

    def test_what_the_control_group_measured_is_compared_as_what_reports_say(self):
        lines = (runs("tiermap", 1.0, group_peak_bytes=100 * MIB) + runs("spark", 9.0, group_peak_bytes=500 * MIB))
        self.assertEqual(ratio_of(lines, Ratio(Pick("spark"), Pick("tiermap"), metric="group_peak_bytes")).value, 0.2)
        unlimited = runs("tiermap", 1.0) + runs("spark", 9.0)
        self.assertIsNone(ratio_of(unlimited, Ratio(Pick("spark"), Pick("tiermap"), metric="group_peak_bytes")))

    def test_the_highest_place_counts_even_if_it_failed(self):
        lines = runs("tiermap", 1.0, x=2) + runs("tiermap", x=64, failed="no luck") + runs("mmap", 4.0, x=2) + runs(
            "mmap", 4.0, x=64)
        self.assertIsNone(ratio_of(lines, Ratio(Pick(x="highest"))))

    def test_the_worst_step_is_the_deepest_fall_of_tiermap_between_2_and_64_threads(self):
        lines = [line for x, value in ((1, 9.0), (2, 10.0), (8, 20.0), (64, 15.0), (128, 1.0))
                 for line in runs("tiermap", value, x=x, metric="teps")] + runs("mmap", 1.0, x=2, metric="teps")
        ratio, earlier, later = worst_step(lines)
        self.assertEqual((ratio, earlier.x, later.x), (0.75, 8, 64))


class Page(Folder):
    def pages(self, **results):
        """The lines of the page and those of its tables."""
        path = self.folder / "docs/benchmarks.md"
        benchmarks_page.write({name.replace("_", "-"): lines for name, lines in results.items()}, path,
                              notes=self.folder / "notes", draw=False)
        return path.read_text().splitlines(), path.with_name("benchmark-tables.md").read_text().splitlines()

    def note(self, name, text):
        path = self.folder / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_a_table_has_a_line_for_each_case_and_says_what_failed(self):
        _, tables = self.pages(sequential_read=runs(
            "tiermap", 1.8e9, 2e9, 2.2e9, metric="bytes_per_second", panel="one pass", group_peak_bytes=256 * MIB,
            result={"cpu_seconds": 1.25, "read_bytes": 1 << 30}) + runs(
                "mmap normal", metric="bytes_per_second", panel="one pass", failed="exit code 1: no luck"))
        at = tables.index("### Sequential read, cold: one pass") + 2
        self.assertEqual(tables[at:at + 5], [
            "| system | median rate | least | most | runs | CPU s | read | peak memory |",
            "|---|---|---|---|---|---|---|---|",
            "| tiermap | 2,000 MB/s | 1,800 MB/s | 2,200 MB/s | 3 | 1.2 | 1 GiB | 256 MiB |",
            "| mmap normal | exit code 1: no luck |  |  | 0 |  |  |  |", ""])

    def test_places_are_a_column_of_their_own_and_stages_are_told(self):
        stages = {"total": {"count": 1234, "p50_ns": 4095, "p99_ns": 8191}, "read": {"count": 0}}
        _, tables = self.pages(
            sort_threads=runs("tiermap", 1.35, 1.5, 1.65, x=8),
            fault_latency=runs("tiermap notify", 4.0, x=2, panel="room for all", metric="microseconds_mean",
                               result={"statistics": {"stages": stages}, "cpu_microseconds_per_fault": 3.5}))
        self.assertIn("| tiermap | 8 | 1.50 | 1.35 | 1.65 | 3 |  |  |  |", tables)
        self.assertIn("| room for all | tiermap notify | 2 | total | 1,234 | 4.09 | 8.19 | 3.50 |", tables)

    def test_each_figure_to_reach_is_met_explained_or_said_to_be_missing(self):
        self.note("aims/bfs.md", "The disk is slow.")
        self.note("aims/sort.md", "Not shown: it is met.")
        page, _ = self.pages(
            sort_page_size=runs("tiermap", 2.0, x=4096) + runs("mmap random", 9.0) + runs("mmap normal", 5.0, 5.0),
            bfs_page_size=runs("tiermap", 2.0, x=4096, panel="ratio 4") + runs("mmap normal", 3.0, panel="ratio 4"),
            search=[{"kind": "skipped", "what": "search", "reason": "tiermap-search is not built"}])
        self.assertIn("| Sort against mmap | at least 2.5 | 2.5 (MCHPC, Fig. 2) | 2.50, 1 run, 2026-01-02: tiermap at "
                      "4 KiB against mmap normal | met |", page)
        self.assertTrue(any("1.50, 1 run" in line and line.endswith("| not met; [why](#why-bfs) |") for line in page))
        self.assertIn("The disk is slow.", page)
        self.assertNotIn("Not shown: it is met.", page)
        self.assertTrue(any("not measured: tiermap-search is not built" in line for line in page))
        self.assertIn("Scenario `search`: not measured: tiermap-search is not built.", page)
        self.assertIn("Scenario `ycsb-threads`: not measured yet.", page)

    def test_what_a_process_measured_in_turn_is_the_same_number_among_aims_and_comparisons(self):
        place = {"panel": "random, all in memory", "metric": "elements_per_second"}
        ours = runs("transaction", 6.0, 30.0, 20.0, system="tiermap", **place)
        for run, other in zip(ours, (5.0, 20.0, 25.0)):
            run["result"] = {"random_memory_elements_per_second": other}
        page, _ = self.pages(vector_transactions=ours + runs("std::vector", 10.0, system="memory", **place))
        self.assertTrue(any(line.startswith("| Random elements through a transaction") and "| 1.20, 3 runs" in line
                            for line in page))
        self.assertTrue(any(line.endswith("| transaction | std::vector | 1.20 |") for line in page))

    def test_a_loss_is_explained_where_a_note_does(self):
        self.note("losses/median-page-size-16-in-flight.md", "The pages are large.")
        for ours, explained in ((1.0, True), (3.0, False)):
            place = {"panel": "16 in flight", "metric": "vectors_per_second"}
            page, _ = self.pages(median_page_size=runs("tiermap", ours, **place) + runs("mmap normal", 2.0, **place))
            self.assertEqual(any(line.endswith("0.50 (loss); [why](#why-median-page-size-16-in-flight) |")
                                 for line in page), explained)
            self.assertEqual("The pages are large." in page, explained)

    def test_what_failed_elsewhere_is_no_reason(self):
        page, _ = self.pages(untuned=runs("tiermap untuned", 2.0, panel="sort")
                             + runs("mmap normal", panel="sort", failed="no luck"))
        self.assertTrue(any(line.startswith("| Untuned, sort: ") and "not measured at this place (a run failed: no luck)"
                            in line for line in page))
        self.assertIn("| Untuned, median: against mmap | at least 0.9 |  | not measured at this place |  |", page)

    def test_throughput_that_falls_as_threads_are_added_does_not_meet_its_figure(self):
        for later, word in ((9.6, "met"), (9.4, "not met")):
            page, _ = self.pages(kmer_threads=runs("tiermap", 10.0, x=2, metric="bases_per_second")
                                 + runs("tiermap", later, x=64, metric="bases_per_second"))
            self.assertTrue(any(line.startswith("| Classifying reads: 2 to 64 threads") and line.endswith(f"| {word} |")
                                for line in page), word)

    def test_what_was_not_measured_over_threads_is_named(self):
        page, _ = self.pages(search=[line for panel, x in (("vector", 2), ("vector", 64), ("ordered", 64))
                                     for line in runs("tiermap", 10.0, x=x, panel=panel, metric="lookups_per_second")])
        self.assertTrue(any("vector: tiermap, 2 to 64 threads; not measured by two numbers of threads: ordered |" in line
                            for line in page))
        page, _ = self.pages(sort_threads=runs("tiermap", 10.0, x=2) + runs("tiermap", 9.0, x=16))
        self.assertTrue(any("tiermap, 2 to 16 threads; no more than 16 measured | met |" in line for line in page))

    def test_where_not_every_way_of_mmap_was_measured_is_said(self):
        ways = [f"mmap {advice}" for advice in ("normal", "random", "sequential")]
        every = [line for way in ways for line in runs(way, 2.0)]
        for lines, said in ((every, False), (every[1:], True), (every + runs("mmap normal, hints", 2.0), True),
                            (every + [line for way in ways for line in runs(f"{way}, hints", 2.0)], False),
                            (every + runs("mmap normal", 2.0, x=2), True),
                            (every + [line for way in ways for hints in ("", ", hints")
                                      for line in runs(way + hints, 2.0, panel="of two programs")], False)):
            page, _ = self.pages(sort_page_size=runs("tiermap", 1.0) + lines)
            self.assertEqual("`sort-page-size`: there its best" in " ".join(page), said)

    def test_what_is_counted_is_held_against_the_most_that_there_may_be(self):
        for messages, word in ((0.0, "| 0, 1 run, 2026-01-02: local | met |"),
                               (3.0, "| 3, 1 run, 2026-01-02: local | not met |")):
            page, _ = self.pages(shared_phases=runs("local", messages, system="tiermap", metric="coherence_messages"))
            self.assertTrue(any("in a phase that is local | at most 0 |" in line and line.endswith(word)
                                for line in page), word)

    def test_pages_in_time_are_held_against_the_least_that_there_may_be(self):
        for percent, word in ((95.0, "met"), (94.9, "not met")):
            page, _ = self.pages(vector_transactions=runs("scan, 64 KiB pages", percent, system="tiermap",
                                                          panel="pages in time, memory for a quarter",
                                                          metric="pages_in_time_percent"))
            self.assertTrue(any("there in time | at least 95 |" in line and line.endswith(f"| {word} |")
                                for line in page), word)

    def test_half_the_memory_may_cost_so_much_and_no_more(self):
        for half, word in ((1.23, "met"), (1.25, "not met")):
            page, _ = self.pages(bfs_memory=runs("tiermap", 1.0, x=50) + runs("tiermap", half, x=25))
            self.assertTrue(any("level by level: times as long" in line and line.endswith(f"| {word} |")
                                for line in page), word)

    def test_the_papers_value_stands_beside_ours_and_where_it_is_said(self):
        page, _ = self.pages(sort_page_size=runs("tiermap", 2.0, x=8 * MIB) + runs("mmap normal", 4.0))
        self.assertIn("| at best (8 MiB pages) (section 6.1: \"achieves 2.5 times speedup\") | 2.50 | 2.00 | tiermap "
                      "at 8 MiB against mmap normal |", page)
        self.assertTrue(any("Fig. 6**" in line and "not mirrored" in line for line in page))

    def test_what_was_skipped_cut_or_disturbed_is_said(self):
        lines = runs("tiermap", 2.0, x=2, quiet=False) + [
            {"kind": "skipped", "what": "mmap normal", "reason": "no control group"},
            {"kind": "cut", "repetition": 2, "runs": 5, "whole": 9, "cases_without_a_run": 1}]
        for page in self.pages(sort_threads=lines):
            self.assertIn("Skipped: mmap normal: no control group.", page)
            self.assertIn("Cut after 5 of 9 runs, in round 2: its time was up; 1 cases have no run.", page)
            self.assertIn("Other work was going on at the beginning of 1 of 1 runs.", page)

    def test_notes_are_taken_over_in_the_order_of_their_names(self):
        self.note("20-later.md", "## Later\n\nBecause.")
        self.note("10-first.md", "## First")
        page, _ = self.pages()
        self.assertEqual(page[-5:], ["## First", "", "## Later", "", "Because."])

    def test_the_word_follows_from_the_aim(self):
        for name, panel, rival, ratio, expected in (
                ("sequential-read", "one pass", "mmap sequential", 0.952, "0.95 (within the aim)"),
                ("sequential-read", "one pass", "direct", 0.94, "0.94 (loss)"),
                ("sequential-read", "one pass", "mmap normal", 1.0, "1.00"),
                ("random-reads", "4KiB blocks", "fio", 0.9, "0.90 (within the aim)"),
                ("random-reads", "4KiB blocks", "mmap random", 0.98, "0.98 (loss)"),
                ("sort-page-size", "", "mmap normal", 2.4, "2.40 (short of the aim)"),
                ("bfs-page-size", "ratio 2", "mmap normal", 0.9, "0.90 (loss)"),
                ("bfs-page-size", "all fits", "mmap normal", 1.4, "1.40"),
                ("bfs-page-size", "all fits", "memory", 0.96, "0.96 (within the aim)")):
            lines = runs("tiermap", 1000.0, panel=panel) + runs(rival, 1000 * ratio, panel=panel)
            page, _ = self.pages(**{name: lines})
            self.assertTrue(any(f"| {rival} | {expected} |" in line for line in page), f"{name}: {panel}, {rival}")


class Lists(unittest.TestCase):
    def test_who_reads_the_list_may_have_seen_enough(self):
        reader, writer = os.pipe()
        os.close(reader)
        listed = subprocess.run([sys.executable, "-B", ROOT / "bench/run.py", "--list"], stdout=writer, check=False,
                                stderr=subprocess.PIPE, text=True)
        os.close(writer)
        self.assertEqual((listed.returncode, listed.stderr), (0, ""))

    def test_what_a_recorded_program_reads_is_made_by_a_command_before(self):
        replays = recorded_policies.read_results(ROOT / "bench/results/policies")
        _, commands, _ = recorded_policies.page_of(replays).split("```")
        made = set()
        for command in commands.strip().splitlines():
            words = command.split()
            if "--in" in words:
                self.assertIn(words[words.index("--in") + 1], made, command)
            if "--database" in words and "--reads" in words:
                self.assertIn(words[words.index("--database") + 1], made, command)
                self.assertIn(words[words.index("--reads") + 1].split("/")[0], made, command)
            made |= {name for option, name in zip(words, words[1:]) if option in ("--file", "--database", "--generate")}

    def test_every_figure_and_aim_is_of_a_scenario_that_is_measured(self):
        for figure in paper_figures.FIGURES:
            self.assertIn(figure.scenario, SCENARIOS, figure.key)
            self.assertIn(figure.paper, paper_figures.PAPERS)
        for name in (*(aim.scenario for aim in aims.FIGURES), *aims.THREADS, *(other[0] for other in aims.OTHERS),
                     *aims.IN_WORDS, *paper_figures.STAND_INS):
            self.assertIn(name, SCENARIOS)
        keys = [figure.key for figure in paper_figures.FIGURES] + [aim.key for aim in aims.FIGURES]
        self.assertEqual(len(keys), len(set(keys)))

    def test_every_figure_of_the_papers_is_mirrored_or_said_to_be_impossible(self):
        wanted = {"umap-tpds": "3a 3b 3c 3d 4a 4b 5a 5b 6a 6b 7 8", "umap-mchpc": "2 3 4 5 6 7 8",
                  "sparsestore": "2a 2b", "di-mmap": "3 4 5 6 7a 7b 8 9 10 11 12 13"}
        for paper, numbers in wanted.items():
            found = [figure.number for figure in paper_figures.FIGURES if figure.paper == paper]
            found += [entry[1] for entry in paper_figures.IMPOSSIBLE if entry[0] == paper]
            expected = [f"Fig. {number}" for number in numbers.split()] + ["Table 3"] * (paper == "umap-tpds")
            self.assertEqual(sorted(found), sorted(expected), paper)


class Committed(Folder):
    """bench/results, docs/benchmarks.md and its plots belong together."""

    def setUp(self):
        super().setUp()
        store = ResultFolder(ROOT / "bench/results")
        self.results = {name: store.read(name) for name in store.scenarios()}

    def test_the_pages_are_what_the_results_give(self):
        written = self.folder / "benchmarks.md"
        drawn = benchmarks_page.write(self.results, written, draw=False)
        for path in (written, written.with_name("benchmark-tables.md")):
            self.assertEqual(path.read_text(), (ROOT / "docs" / path.name).read_text(),
                             f"docs/{path.name} is not what bench/results and bench/notes give: run bench/run.py "
                             "--render")
        self.assertEqual({path.name for path in (ROOT / "docs/figures").glob("*.png")}, drawn)

    def test_the_plots_are_those_of_the_results(self):
        figures = {figure.key: figure for figure in paper_figures.FIGURES}
        for path in (ROOT / "docs/figures").glob("*.png"):
            figure = figures.get(path.stem)
            lines = self.results.get(figure.scenario if figure else path.stem, [])
            self.assertEqual(plots.checksum_in(path), plots.checksum(lines, figure),
                             f"{path.name} was drawn from other results: run bench/run.py --render")

    def test_the_page_of_recorded_traces_is_what_their_replays_give(self):
        replays = recorded_policies.read_results(ROOT / "bench/results/policies")
        self.assertEqual(len(replays), len(recorded_policies.RECORDINGS))
        self.assertEqual((ROOT / "docs/policies-recorded.md").read_text(), recorded_policies.page_of(replays),
                         "run bench/recorded_policies.py --render")

    def test_every_line_has_what_it_takes_to_run_it_again_and_nothing_of_the_machines_folders(self):
        for name, lines in self.results.items():
            self.assertIn(name, SCENARIOS)
            for line in lines:
                self.assertEqual(line["scenario"], name)
                if line["kind"] != "run":
                    continue
                self.assertIn(line["metric"], METRICS)
                for key in ("command", "environment", "machine", "time", "commit", "limit_bytes", "result",
                            "repetition"):
                    self.assertIn(key, line, name)
                for word in line["command"]:
                    # Where Debian's packages put their programs is the same on every machine.
                    self.assertFalse(word.startswith("/") and not word.startswith("/usr/bin/"), f"{name}: {word}")

    def test_a_pictures_checksum_can_be_read_back(self):
        if not plots.have_matplotlib():
            self.skipTest("matplotlib is not installed")
        lines = runs("tiermap", 1.0, 2.0, x=2) + runs("mmap random", 3.0, x=2) + runs("tiermap", 1.0, x=4)
        figure = next(figure for figure in paper_figures.FIGURES if figure.scenario == "sort-threads")
        picture = self.folder / "plot.png"
        self.assertTrue(plots.draw(picture, lines, "threads", "A title", figure))
        self.assertEqual(plots.checksum_in(picture), plots.checksum(lines, figure))
        self.assertNotEqual(plots.checksum_in(picture), plots.checksum(lines[1:], figure))


if __name__ == "__main__":
    unittest.main()
