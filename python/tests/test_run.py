"""A script with arrays of this package that `tiermap run` has started."""

import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from conftest import PROGRAM

WORKERS = 4


def test_workers_write_elements_that_lie_side_by_side(tmp_path):
    """Their memory is to be the kernel's page cache, and not to be served to each of them by pages of its own."""
    script, path = tmp_path / "script.py", tmp_path / "numbers.bin"
    np.zeros(1 << 18, np.int64).tofile(path)
    script.write_text(textwrap.dedent("""
        import multiprocessing, sys
        import tiermap
        def work(array, number):
            array[number::4] = number + 1
        array = tiermap.map(sys.argv[1], "i8", mode="r+", budget="1MiB")
        context = multiprocessing.get_context("fork")
        workers = [context.Process(target=work, args=(array, number)) for number in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        print([worker.exitcode for worker in workers])
        """))
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"no {PROGRAM} program to run: name one in TIERMAP_PROGRAM")
    probe = [PROGRAM, "run", "--", "true"]
    if subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip(f"{PROGRAM} runs no programs here")
    ended = subprocess.run([PROGRAM, "run", "--serve-all", "--verbose", "--", sys.executable, str(script), str(path)],
                           capture_output=True, text=True, timeout=100, check=False)
    assert ended.stdout == f"{[0] * WORKERS}\n", ended.stderr
    assert f"serves {path}" not in ended.stderr
    assert np.array_equal(np.fromfile(path, np.int64), np.arange(1 << 18) % WORKERS + 1)
