"""Stores written in Python that map files themselves, in the process that serves them."""

import os
import time

import numpy as np
import pytest

import tiermap
from conftest import known

COUNT = 1 << 16


def written(path):
    known(COUNT).tofile(path)
    return path


class Doubled:
    """Twice what a file has, which its open() maps."""

    size = COUNT * 8

    def __init__(self, path, **options):
        self.path, self.options = path, options

    def open(self):
        self.array = tiermap.map(self.path, "i8", **self.options)

    def read_into(self, offset, buffer):
        buffer[:] = (self.array[offset // 8:(offset + len(buffer)) // 8] * 2).tobytes()


class Kept:
    """What is written to it goes to an array of its own."""

    size = COUNT * 8

    def __init__(self, path):
        self.path = path

    def open(self):
        self.array = tiermap.map(self.path, mode="r+", budget="4MiB")

    def read_into(self, offset, buffer):
        buffer[:] = self.array[offset:offset + len(buffer)].tobytes()

    def write_from(self, offset, buffer):
        self.array[offset:offset + len(buffer)] = np.frombuffer(buffer, "u1")


@pytest.mark.parametrize("mapped", ["same", "other"])
@pytest.mark.parametrize("cache", ["default", "own"])
def test_it_reads_what_it_maps_whatever_the_program_has_mapped(tmp_path, mapped, cache):
    """The program's caches have no threads in that process, and its arrays no memory."""
    options = {} if cache == "default" else {"cache": tiermap.Cache("1MiB")}
    path, other = written(tmp_path / "x.bin"), written(tmp_path / "y.bin")
    before = tiermap.map(path, "i8", **options)
    assert before[5] == known(6)[5]
    array = tiermap.map(Doubled(path if mapped == "same" else other, **options), "i8", budget="1MiB")
    assert np.array_equal(array, known(COUNT) * 2)
    assert np.array_equal(before, known(COUNT))


def test_it_maps_while_another_thread_of_the_program_maps(tmp_path, program):
    """That thread's locks are held for ever in the store's process."""
    ended = program("""
        import sys, threading
        import numpy as np
        import tiermap
        stop = threading.Event()
        def map_again_and_again():
            while not stop.is_set():
                tiermap.map(sys.argv[1], mode="r+", budget="1MiB")[0] += 1
        class Mapped:
            size = 4096
            def open(self):
                self.array = tiermap.map(sys.argv[2])
            def read_into(self, offset, buffer):
                buffer[:] = self.array[offset:offset + len(buffer)].tobytes()
        threads = [threading.Thread(target=map_again_and_again) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            assert tiermap.map(Mapped(), budget="1MiB")[:4].tolist() == [0, 0, 0, 0]
        stop.set()
        for thread in threads:
            thread.join()
        print("done")
        """, written(tmp_path / "x.bin"), written(tmp_path / "y.bin"))
    assert ended.code == 0 and ended.output == "done\n", ended


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_what_it_wrote_to_an_array_of_its_own_reaches_the_file(tmp_path, start):
    """Also where it has no flush() and no close(): its process ends without the interpreter's own exit."""
    path = tmp_path / "x.bin"
    np.zeros(COUNT, "i8").tofile(path)
    array = tiermap.map(Kept(path), "i8", mode="r+", budget="1MiB", start=start)
    array[:] = known(COUNT)
    del array
    deadline = time.monotonic() + 100
    while not np.array_equal(np.fromfile(path, "i8"), known(COUNT)):
        assert time.monotonic() < deadline, "it is not written"
        time.sleep(0.01)


def test_its_own_children_are_told_nothing_of_the_programs_arrays(tmp_path, capfd):
    """A store may fork, as subprocess with preexec_fn does. Of the program's caches they start none."""
    unused = tiermap.Cache("1MiB")

    class Forking(Doubled):
        def open(self):
            super().open()
            child = os.fork()
            if child == 0:
                os._exit(0 if self.array[7] == known(8)[7] and unused._engine is None else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    before = tiermap.map(written(tmp_path / "x.bin"), "i8", mode="r+", budget="1MiB")
    before[0] = 5
    array = tiermap.map(Forking(written(tmp_path / "y.bin")), "i8", budget="1MiB")
    assert np.array_equal(array, known(COUNT) * 2)
    assert capfd.readouterr().err == ""
