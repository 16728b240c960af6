"""A script with arrays of this package that `tiermap run` has started."""

import contextlib
import shutil
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from conftest import PROGRAM

WORKERS = 4
ROWS = 16384


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


def run(script, *arguments):
    require_program()
    return subprocess.run([PROGRAM, "run", "--serve-all", "--verbose", "--", sys.executable, "-c",
                           textwrap.dedent(script), *map(str, arguments)],
                          capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def rows(tmp_path):
    """Rows of 64 bytes; smaller files are left to the kernel, and readers of those are heard of by nobody."""
    path = tmp_path / "rows"
    np.zeros(8 * ROWS, np.int64).tofile(path)
    return path


@pytest.mark.parametrize("first", ["tiermap", "numpy"])
@pytest.mark.parametrize("mode", ["r", "r+"])
def test_one_file_in_arrays_of_either_kind_is_one_memory(rows, first, mode):
    """Two who serve it are in one process, and neither waits for itself."""
    ended = run("""
        import sys, numpy, tiermap
        kinds = [tiermap.memmap, numpy.memmap] if sys.argv[2] == "tiermap" else [numpy.memmap, tiermap.memmap]
        earlier = kinds[0](sys.argv[1], "i8", sys.argv[3], shape=(16384, 8))
        before = int(earlier.sum())
        later = kinds[1](sys.argv[1], "i8", "r+", shape=(16384, 8))
        later[5] = 5
        print(before, earlier[5].tolist())
        if sys.argv[3] == "r+":
            earlier[6] = 6
        print(later[6].tolist())
        """, rows, first, mode)
    assert ended.stdout == f"0 {[5] * 8}\n{[6 if mode == 'r+' else 0] * 8}\n", ended.stderr


def test_arrays_of_one_file_that_reach_into_one_another_wait_for_nobody(rows):
    """A reader, and a writer; one that makes the file longer; and the same in a worker."""
    ended = run("""
        import multiprocessing, sys, tiermap
        path = sys.argv[1]
        reader = tiermap.map(path, "i8")
        before = int(reader[5])
        writer = tiermap.map(path, "i8", mode="r+")
        writer[5] = 5
        longer = tiermap.memmap(path, "i8", "r+", shape=2 * len(reader))
        longer[6] = 6
        print(before, reader[4:7].tolist(), writer[6], len(longer))

        def write(other):
            tiermap.map(other, "i8", mode="r+")[7] = 7

        other = tiermap.map(path + ".2", "i8", len(reader), mode="w")
        del other
        other = tiermap.map(path + ".2", "i8")
        before = int(other[7])
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(write, [path + ".2"])
        print(before, other[7])
        """, rows)
    assert ended.stdout == f"0 [0, 5, 6] 6 {16 * ROWS}\n0 7\n", ended.stderr


def test_a_reader_and_a_writer_round_by_round(rows):
    """The thread that maps for the kernel is known as that before it maps."""
    ended = run("""
        import sys, tiermap
        for turn in range(300):
            reader = tiermap.map(sys.argv[1], "i8")
            before = int(reader[5])
            writer = tiermap.map(sys.argv[1], "i8", mode="r+")
            writer[5] = turn
            assert before == max(turn - 1, 0) and reader[5] == turn
            del reader, writer
        print("done")
        """, rows)
    assert ended.stdout == "done\n", ended.stderr


@pytest.mark.parametrize("first", ["tiermap", "numpy"])
@pytest.mark.parametrize("started", ["plain", "run"])
def test_one_file_in_arrays_of_either_kind_in_two_processes_is_one_memory(rows, first, started):
    """The one of numpy's array is started by `tiermap run`, the other as it may be."""
    require_program()
    text = textwrap.dedent("""
        import sys, numpy, tiermap
        kind = numpy.memmap if sys.argv[2] == "numpy" else tiermap.memmap
        array = kind(sys.argv[1], "i8", "r+", shape=(16384, 8))
        for line in sys.stdin:
            row, value = map(int, line.split())
            if value:
                array[row] = value
            print(array[row].tolist(), flush=True)
        """)
    started_by_run = [PROGRAM, "run", "--serve-all", "--"]
    commands = {"numpy": [*started_by_run, sys.executable, "-c", text, str(rows), "numpy"],
                "tiermap": [*(started_by_run if started == "run" else []), sys.executable, "-c", text, str(rows),
                            "tiermap"]}

    def ask(process, row, value=0):
        process.stdin.write(f"{row} {value}\n")
        process.stdin.flush()
        return process.stdout.readline()

    with contextlib.ExitStack() as ends:
        processes = []
        for kind in [first, *(set(commands) - {first})]:
            process = subprocess.Popen(commands[kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            processes.append(ends.enter_context(process))
            assert ask(process, len(processes), len(processes)) == f"{[len(processes)] * 8}\n"
        for turn in range(1, 20):
            for storing, looking in [processes, processes[::-1]]:
                number = turn + 100 * processes.index(storing)
                assert ask(storing, number, number) == f"{[number] * 8}\n" == ask(looking, number)
        for process in processes:
            process.stdin.close()
            assert process.wait(60) == 0


def test_workers_of_a_pool_map_one_file_by_name(rows):
    """Each of them serves it for a moment."""
    script = rows.with_name("script.py")
    script.write_text(textwrap.dedent("""
        import multiprocessing, sys, numpy, tiermap
        def store(first):
            kind = [numpy.memmap, tiermap.memmap][first % 2]
            array = kind(sys.argv[1], "i8", "r+", shape=(16384, 8))
            for row in range(first, 16384, 4):
                array[row] = row + 1
        if __name__ == "__main__":
            for start in ("fork", "spawn"):
                numpy.zeros(131072, "i8").tofile(sys.argv[1])
                with multiprocessing.get_context(start).Pool(4) as pool:
                    pool.map_async(store, range(4), chunksize=1).get(100)
                stored = numpy.fromfile(sys.argv[1], "i8").reshape(16384, 8)
                print((stored == numpy.arange(1, 16385)[:, None]).all())
        """))
    require_program()
    ended = subprocess.run([PROGRAM, "run", "--serve-all", "--", sys.executable, script, rows], capture_output=True,
                           text=True, timeout=140, check=False)
    assert ended.stdout == "True\nTrue\n", ended.stderr
