"""The examples run, on small data, and say what they are to say."""

import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT

EXAMPLES = ROOT / "python" / "examples"


def run(folder, name, *arguments):
    done = subprocess.run([sys.executable, EXAMPLES / name, *map(str, arguments)], cwd=folder, capture_output=True,
                          text=True, timeout=100, check=False)
    assert list(folder.iterdir()) == []
    return done


def test_own_store(tmp_path):
    done = run(tmp_path, "own_store.py")
    assert done.returncode == 0 and "the sum is right" in done.stdout, done.stderr


def test_workers(tmp_path):
    done = run(tmp_path, "workers.py")
    assert done.returncode == 0 and "8 blocks" in done.stdout, done.stderr


def test_remote_dask(tmp_path, server):
    pytest.importorskip("dask.array")
    done = run(tmp_path, "remote_dask.py", f"remote://{server}/roots")
    assert done.returncode == 0 and "the mean of 8 blocks is 133.3" in done.stdout, done.stderr


def test_warm_reduction(tmp_path):
    done = run(tmp_path, "warm_reduction.py", "--mebibytes", 16, "--rounds", 2)
    assert done.returncode == 0 and "plain" in done.stdout, done.stderr
    done = run(tmp_path, "warm_reduction.py", "--mebibytes", 16, "--rounds", 2, "--json")
    assert set(json.loads(done.stdout)) == {"plain_seconds", "mapped_seconds"}


def test_row_gather(tmp_path):
    done = run(tmp_path, "row_gather.py", "--mebibytes", 32, "--rounds", 1, "--seconds", 0.2, "--json", "--ratio", 2)
    if "no memory limit" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    rates = json.loads(done.stdout)
    assert set(rates) >= {"tiermap", "numpy, as it comes"} and all(rate[0] > 0 for rate in rates.values())


@pytest.mark.parametrize("name", ["warm_reduction.py", "row_gather.py"])
def test_a_file_of_somebodys_is_neither_replaced_nor_removed(tmp_path, name):
    (tmp_path / "mine.npy").write_bytes(b"mine")
    mine, folder = tmp_path / "mine.npy", tmp_path / "folder"
    folder.mkdir()
    mine.write_bytes(b"mine")
    done = run(folder, name, "--mebibytes", 1, "--rounds", 1, "--data", mine)
    assert done.returncode != 0 and f"{mine} exists" in done.stderr, done
    assert mine.read_bytes() == b"mine"


def test_every_example_is_run():
    here = open(__file__).read()
    assert all(f'"{name}"' in here for name in os.listdir(EXAMPLES) if name.endswith(".py"))
