"""A script with arrays of this package that `tiermap run` has started."""

import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from conftest import PROGRAM

WORKERS = 4


def require_program():
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"no {PROGRAM} program to run: name one in TIERMAP_PROGRAM")
    probe = [PROGRAM, "run", "--", "true"]
    if subprocess.run(probe, capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip(f"{PROGRAM} runs no programs here")


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
    require_program()
    ended = subprocess.run([PROGRAM, "run", "--serve-all", "--verbose", "--", sys.executable, str(script), str(path)],
                           capture_output=True, text=True, timeout=100, check=False)
    assert ended.stdout == f"{[0] * WORKERS}\n", ended.stderr
    assert f"serves {path}" not in ended.stderr
    assert np.array_equal(np.fromfile(path, np.int64), np.arange(1 << 18) % WORKERS + 1)


@pytest.mark.parametrize("order", ["this package's first", "numpy's first"])
def test_a_script_that_is_told_to_end_keeps_what_it_has_stored_in_either_kind_of_array(tmp_path, order):
    """One of the two has taken over the signal, and writes for both: also where a child that shares its memory, of a
    program that could not be started, has ended."""
    script, paths = tmp_path / "script.py", [tmp_path / "of-this-package", tmp_path / "of-numpy"]
    script.write_text(textwrap.dedent("""
        import contextlib, subprocess, sys, time
        import numpy, tiermap
        kinds = [tiermap.memmap, numpy.memmap]
        pairs = list(zip(kinds, sys.argv[1:]))
        arrays = [kind(path, mode="r+") for kind, path in (pairs if sys.argv[3].startswith("this") else pairs[::-1])]
        for array in arrays:
            array[:] = 7
        with contextlib.suppress(FileNotFoundError):
            subprocess.run(["/nowhere/such-a-program"])
        print("stored", flush=True)
        time.sleep(60)
        """))
    for path in paths:
        path.write_bytes(bytes(1 << 22))
    require_program()
    with subprocess.Popen([PROGRAM, "run", "--serve-all", "--verbose", "--", sys.executable, script, *paths, order],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "stored\n"
        run.terminate()
        told = run.communicate(timeout=60)[1]
    assert f"serves {paths[1]}" in told
    assert "forked" not in told
    assert run.returncode == -signal.SIGTERM
    assert [path.read_bytes() == b"\7" * (1 << 22) for path in paths] == [True, True]
