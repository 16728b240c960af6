#!/usr/bin/env python3
"""What `make test` closes with: counts, skipped tests with their reasons, and what passed only when it was tried again."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))

PASSED = '<testcase name="good" classname="a"/>'
FAILED = '<testcase name="late" classname="a"><failure message=""/><system-out>it was late</system-out></testcase>'
PASSED_LATER = '<testcase name="late" classname="a"/>'
SKIPPED = ('<testcase name="rare" classname="a"><skipped message="SKIP_RETURN_CODE=77"/>'
           "<system-out>skipped: no such device</system-out></testcase>")


class Reports(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def report(self, name, *cases):
        path = self.folder / name
        path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
        return path

    def said_of(self, path):
        run = subprocess.run([sys.executable, ROOT / "scripts/report_tests.py", f"release={path}"], capture_output=True,
                             text=True, check=False)
        return run.returncode, run.stdout.splitlines()

    def test_what_failed_is_counted_and_fails(self):
        status, lines = self.said_of(self.report("report.xml", PASSED, FAILED, SKIPPED))
        self.assertEqual(status, 1)
        self.assertEqual(lines, ["release: 1 passed, 1 failed, 1 skipped", "  skipped: rare: no such device",
                                 "1 passed, 1 failed, 1 skipped"])

    def test_what_passed_when_it_was_tried_again_is_named(self):
        path = self.report("report.xml", PASSED, FAILED)
        self.report("report-again.xml", PASSED_LATER)
        status, lines = self.said_of(path)
        self.assertEqual(status, 0)
        self.assertEqual(lines, ["release: 2 passed, 0 failed, 0 skipped", "  failed beside others, passed alone: late",
                                 "2 passed, 0 failed, 0 skipped"])

    def test_what_failed_again_fails(self):
        path = self.report("report.xml", PASSED, FAILED)
        self.report("report-again.xml", FAILED)
        status, lines = self.said_of(path)
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def may_try_again(self, *cases):
        command = [sys.executable, ROOT / "scripts/report_tests.py", "--may-try-again", self.report("tried.xml", *cases)]
        return subprocess.run(command, check=False).returncode == 0

    def test_a_few_failures_are_tried_again_and_findings_of_sanitizers_never(self):
        self.assertFalse(self.may_try_again(PASSED))
        self.assertTrue(self.may_try_again(PASSED, *[FAILED] * 5))
        self.assertFalse(self.may_try_again(PASSED, *[FAILED] * 6))
        for finding in ("ERROR: AddressSanitizer: x", "ERROR: LeakSanitizer: x", "WARNING: ThreadSanitizer: x",
                        "a.cpp:1:2: runtime error: x"):
            self.assertFalse(self.may_try_again(FAILED.replace("it was late", finding)), finding)

    def test_what_a_random_test_found_is_not_tried_again_with_another_seed(self):
        self.assertTrue(self.may_try_again(FAILED, PASSED_LATER.replace("/>", "><system-out>seed 7</system-out></testcase>")))
        for seed in ("TIERMAP_TEST_SEED=3145961240", "seed 7", "Seed: 8"):
            self.assertFalse(self.may_try_again(FAILED.replace("it was late", seed)), seed)

    def test_no_test_is_no_success(self):
        self.assertEqual(self.said_of(self.report("report.xml"))[0], 1)


if __name__ == "__main__":
    unittest.main()
