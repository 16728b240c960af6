#!/usr/bin/env python3
"""docs/examples/slurm_job.sh, where programs pretend to be Slurm's and Tiermap: it starts what it says, ends where a
server cannot start, and leaves nothing behind."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))

# With --output it is the servers' step, of a task on each of two nodes, which ends with the first that fails.
SRUN = """#!/bin/bash
output=
while [[ $1 == --* ]]; do
  [[ $1 != --output=* ]] || output=${1#--output=}
  shift
done
[[ -n $output ]] || exec "$@"
trap 'kill $(jobs -p); wait; exit 1' TERM
for node in one two; do
  SLURMD_NODENAME=$node "$@" >"${output//%N/$node}" 2>&1 &
done
wait -n || { kill $(jobs -p); wait; exit 1; }
"""
SCONTROL = """#!/bin/sh
printf 'one\\ntwo\\n'
"""
TIERMAP = """#!/bin/bash
echo "$*" >>"$NOTES/calls"
[[ $* == *--listen* ]] || exit 0
echo $$ >>"$NOTES/servers"
[[ $* != *"--listen $REFUSED:"* ]] || { echo "tiermap: address '$REFUSED:7070' is in use"; exit 1; }
echo "listening on here, 0 data sets"
exec sleep 600
"""
PROGRAM = """#!/bin/sh
echo "program $TIERMAP_SERVERS" >>"$NOTES/calls"
"""


class SlurmJob(unittest.TestCase):
    def run_script(self, refused):
        with tempfile.TemporaryDirectory() as folder:
            notes = pathlib.Path(folder)
            home = notes / "home"
            home.mkdir()
            for name, text in {"srun": SRUN, "scontrol": SCONTROL, "tiermap": TIERMAP, "my_program": PROGRAM}.items():
                (notes / name).write_text(text)
                (notes / name).chmod(0o755)
            environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", HOME=str(home), USER="ann",
                               NOTES=folder, REFUSED=refused, SLURM_NNODES="2", SLURM_JOB_NODELIST="one,two")
            ended = subprocess.run(["bash", ROOT / "docs/examples/slurm_job.sh"], cwd=folder, env=environment,
                                   capture_output=True, text=True, timeout=60)
            self.assertEqual(list(home.iterdir()), [], "the secret is left")
            for server in (notes / "servers").read_text().split():
                self.assertFalse(pathlib.Path("/proc", server).exists(), "a server is left")
            return ended, (notes / "calls").read_text()

    def test_it_starts_servers_and_the_program_and_ends_them(self):
        ended, calls = self.run_script("nobody")
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertIn("serve load /project/points.bin remote://one:7070,two:7070/points?layout=striped", calls)
        self.assertIn("program one:7070,two:7070", calls)

    def test_a_server_that_cannot_start_ends_it_and_says_why(self):
        ended, calls = self.run_script("two")
        self.assertEqual(ended.returncode, 1)
        self.assertIn("tiermap: address 'two:7070' is in use", ended.stderr)
        self.assertNotIn("program", calls)


if __name__ == "__main__":
    unittest.main()
