#!/usr/bin/env python3
"""What bench/ runs packaged programs by: a program that does something else than the first time is said to be wrong."""
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


class TimedProgram(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_program(self, *words):
        return subprocess.run([sys.executable, "-B", ROOT / "bench/timed_program.py", "--expect",
                               self.folder / "digest", *words], capture_output=True, text=True, check=False)

    def verified(self, *words):
        done = self.run_program(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertGreater(report["seconds"], 0)
        return report["verified"]

    def test_what_is_printed_counts(self):
        self.assertTrue(self.verified("echo", "one"))
        self.assertTrue(self.verified("echo", "one"))
        self.assertFalse(self.verified("echo", "two"))

    def test_what_is_written_counts_where_it_is_asked_for(self):
        output = self.folder / "output"
        write = "date +%N; printf {} > " + str(output)
        for text, right in (("one", True), ("one", True), ("two", False)):
            self.assertEqual(self.verified("--output", output, "sh", "-c", write.format(text)), right)
        # What an earlier run left does not count.
        self.assertNotEqual(self.run_program("--output", output, "true").returncode, 0)

    def test_what_is_printed_is_not_kept(self):
        """Whoever measures a program with little memory has no more himself."""
        limit = 256 << 20
        done = subprocess.run([sys.executable, "-B", ROOT / "bench/timed_program.py", "--expect", self.folder / "digest",
                               "head", "-c", str(2 * limit), "/dev/zero"], capture_output=True, text=True, check=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_program_that_fails_has_no_time(self):
        done = self.run_program("sh", "-c", "echo no luck; exit 3")
        self.assertEqual(done.stdout, "")
        self.assertIn("exit code 3: no luck", done.stderr)
        self.assertTrue(self.verified("--exit-code", "3", "sh", "-c", "exit 3"))


if __name__ == "__main__":
    unittest.main()
