"""A language model's runner as it is packaged, through `tiermap run`: weights larger than the memory for them."""

import re
import subprocess
import sys

import pytest

from conftest import ROOT

TIERMAP = ROOT / "build" / "release" / "bin" / "tiermap"


def run(command):
    """The library ends by a signal now and then, without Tiermap too: then once more, and again."""
    for _ in range(3):
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
        if done.returncode >= 0:
            break
    return done


def test_generates_the_same_text(tmp_path):
    pytest.importorskip("ctransformers")
    if not TIERMAP.exists():
        pytest.skip("build/release/bin/tiermap is not there: `make build` makes it")
    model = tmp_path / "model.gguf"
    subprocess.run([sys.executable, ROOT / "bench" / "program_data.py", "weights", model, str(24 << 20)], check=True,
                   timeout=100)
    generate = [sys.executable, ROOT / "tests" / "preload" / "programs" / "generates_text.py", model, "6"]
    plain = run(generate)
    if plain.returncode < 0:
        pytest.skip(f"ctransformers ends by signal {-plain.returncode} on this machine, without Tiermap")
    assert plain.returncode == 0 and len(plain.stdout.split()) == 6, plain.stderr
    report = tmp_path / "report"
    through = [TIERMAP, "run", "--buffer", "8MiB", "--match", "*.gguf", f"--report={report}", "--"]
    served = run([*through, *generate])
    if "userfaultfd" in served.stderr:
        pytest.skip(f"programs are not served on this machine: {served.stderr}")
    assert (served.returncode, served.stdout, served.stderr) == (0, plain.stdout, plain.stderr)
    text = report.read_text()
    assert "1 mapping served" in text
    # All of it is gone over for each word, and never was in memory.
    assert int(re.search(r"(\d+) pages given up", text)[1]) > 1000
