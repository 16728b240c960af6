"""fork, spawn, pickles: arrays are used where they arrive, and nobody waits for ever."""

import concurrent.futures
import copy
import errno
import faulthandler
import multiprocessing
import os
import pickle
import signal
import tempfile

import numpy as np
import pytest

import tiermap
from conftest import known
from tiermap import _location

FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")


def total(array):
    return float(array.sum())


def fill(arguments):
    array, first = arguments
    array[first:first + 4096] = first


@pytest.mark.parametrize("context", [FORK, SPAWN], ids=["fork", "spawn"])
def test_workers_read_what_they_are_sent(rows, context):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        sums = list(pool.map(total, [array[start:start + 512] for start in range(0, 4096, 512)], timeout=100))
    assert sums == [float(values[start:start + 512].sum()) for start in range(0, 4096, 512)]


def test_a_pickle_is_a_name_and_no_data(rows):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    for view in (array, array[100:200, ::3], array.T, array[::-1], array[5]):
        sent = pickle.dumps(view)
        assert len(sent) < 2500
        assert np.array_equal(pickle.loads(sent), view)
    assert len(array._mapping.cache.mappings) == 1, "here it is the mapping that there is"
    assert np.array_equal(copy.deepcopy(array), values)


def test_a_pickle_opened_elsewhere(rows, program):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")[7:9, 10:20]
    ended = program("""
        import pickle, sys
        array = pickle.loads(bytes.fromhex(sys.argv[1]))
        print(type(array).__name__, array.tolist() == eval(sys.argv[2]), array.flags.writeable,
              array._mapping.cache.budget)
        """, pickle.dumps(array).hex(), values[7:9, 10:20].tolist())
    assert ended.output == "Array True False 1048576\n", ended


def test_a_small_budget_is_no_hindrance_to_workers_that_write(numbers, program):
    """Fault mode kernel, in which they write, wants 1 MiB."""
    second = numbers[0].with_name("second.bin")
    second.write_bytes(numbers[0].read_bytes())
    ended = program("""
        import os, pickle, subprocess, sys
        import tiermap
        default = tiermap.map(sys.argv[2], "i8", mode="r+")
        array = tiermap.map(sys.argv[1], "i8", mode="r+", budget="256KiB")
        other = tiermap.map(sys.argv[1], "i8", budget="256KiB")
        child = os.fork()
        if child == 0:
            array[3], default[3] = -3, -33
            array.sync(), default.sync()
            assert int(array.sum()) == int(other.sum())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        text = "import pickle, sys; array = pickle.loads(bytes.fromhex(sys.argv[1])); array[4] = -4; array.sync()"
        for sent in (array, default):
            subprocess.run([sys.executable, "-c", text, pickle.dumps(sent).hex()], check=True, timeout=60)
        """, numbers[0], second, TIERMAP_BUFFER_SIZE="256KiB")
    assert ended.code == 0 and ended.errors == "", ended
    assert np.fromfile(numbers[0], np.int64)[3:5].tolist() == [-3, -4]
    assert np.fromfile(second, np.int64)[3:5].tolist() == [-33, -4]


def test_what_only_this_process_has_is_sent_by_value(numbers):
    array = tiermap.map(numbers[0], np.int64, mode="c", budget="1MiB")
    array[3] = 5
    memory = tiermap.map("memory:1MiB", mode="r+", budget="1MiB")
    memory[:] = 3
    for view in (array, memory):
        again = pickle.loads(pickle.dumps(view))
        assert type(again) is np.ndarray and np.array_equal(again, view)


def test_pickling_a_written_array_writes_first(numbers, program):
    array = tiermap.map(numbers[0], np.int64, mode="r+", budget="1MiB")
    array[9] = -9
    ended = program("import pickle, sys; print(pickle.loads(bytes.fromhex(sys.argv[1]))[9])", pickle.dumps(array).hex())
    assert ended.output == "-9\n", ended


def test_a_forked_child_goes_on_with_its_parents_arrays(rows):
    path, values = rows
    cache = tiermap.Cache("1MiB")
    array = cache.map(path)
    view = np.asarray(array[1000:])
    assert array[0, 0] == values[0, 0]
    child = os.fork()
    if child == 0:
        good = np.array_equal(array, values) and np.array_equal(view, values[1000:])
        good = good and cache.stats()["resident_bytes"] <= 1 << 20
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(array, values)


def test_a_forked_child_sees_what_was_written_before(numbers):
    array = tiermap.map(numbers[0], np.int64, mode="r+", budget="1MiB")
    array[:] = 5
    child = os.fork()
    if child == 0:
        os._exit(0 if (np.asarray(array) == 5).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_what_was_written_just_before_is_seen_by_children_pickles_and_the_file(numbers, program):
    """Statistics come later than the write: here they come never."""
    ended = program("""
        import os, pickle, sys
        import numpy as np
        import tiermap
        from tiermap._mapping import Mapping
        Mapping.dirty_bytes = property(lambda mapping: 0)
        array = tiermap.map(sys.argv[1], "int64", mode="r+", budget="1MiB")
        array[3] = -3
        child = os.fork()
        if child == 0:
            os._exit(0 if array[3] == -3 else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        array[4] = -4
        pickle.dumps(array)
        print(np.fromfile(sys.argv[1], "int64")[4])
        array[5] = -5
        """, numbers[0])
    assert ended.output == "0\n-4\n", ended
    assert np.fromfile(numbers[0], np.int64)[3:6].tolist() == [-3, -4, -5]


@pytest.mark.parametrize("size", [4096, 65536, (1 << 20) + 12345])
def test_a_forked_child_has_writable_arrays_of_any_size(tmp_path, program, size):
    """Also where other memory begins right behind them."""
    np.zeros(size, np.uint8).tofile(tmp_path / "data.bin")
    ended = program("""
        import ctypes, os, sys
        import tiermap
        array = tiermap.map(sys.argv[1], mode="r+", page_size="256KiB", budget="32MiB")
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        behind = array._mapping.address + (array.size + 4095) // 4096 * 4096
        NONE, PRIVATE_ANONYMOUS_NOREPLACE = 0, 0x100022
        libc.mmap(ctypes.c_void_p(behind), ctypes.c_size_t(4096), NONE, PRIVATE_ANONYMOUS_NOREPLACE, -1,
                  ctypes.c_long(0))
        array[10] = 7
        child = os.fork()
        if child == 0:
            array[-1] = 9
            grandchild = os.fork()
            if grandchild == 0:
                os._exit(array[10] + array[-1])
            os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        array.drop()
        print(array[10], array[-1])
        """, tmp_path / "data.bin")
    assert ended.output == "16\n7 9\n" and ended.errors == "", ended


def test_memory_that_lies_where_an_array_was_stays_in_a_forked_child(numbers, program):
    """The place cannot be held, so it is not given up either."""
    ended = program("""
        import os, sys
        import tiermap
        from tiermap import _core
        array = tiermap.map(sys.argv[1], budget="1MiB")
        _core.Region.map_again = lambda *_: os._exit(1)
        _core.hold_addresses = lambda *_: False
        child = os.fork()
        if child == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """, numbers[0])
    assert ended.output == "0\n" and "something else lies where it was" in ended.errors, ended


@pytest.mark.parametrize("context", [FORK, SPAWN], ids=["fork", "spawn"])
def test_workers_write_parts_of_one_array(tmp_path, context):
    array = tiermap.map(tmp_path / "out.bin", np.int64, 8 * 4096, mode="w", budget="1MiB")
    with context.Pool(2) as pool:
        pool.map_async(fill, [(array, first) for first in range(0, 8 * 4096, 4096)]).get(100)
        pool.close()
        pool.join()
    tiermap.drop(array)
    assert np.array_equal(array, np.arange(8 * 4096) // 4096 * 4096)


def add_columns(arguments):
    array, first = arguments
    for column in range(first, array.shape[1], 3):
        array[:, column] = column


@pytest.mark.parametrize("context", [FORK, SPAWN], ids=["fork", "spawn"])
def test_workers_write_elements_that_lie_side_by_side(tmp_path, context):
    """Columns: every block of 4 KiB is written by all of them."""
    array = tiermap.map(tmp_path / "out.npy", np.int16, (3000, 30), mode="w", budget="1MiB")
    with context.Pool(3) as pool:
        pool.map_async(add_columns, [(array, first) for first in range(3)], chunksize=1).get(100)
    array.drop()
    assert (np.asarray(array) == np.arange(30)).all()


def try_to_write(array):
    array[0] = 1


def test_what_is_no_plain_file_is_read_only_elsewhere(tmp_path):
    for index in range(2):
        known(1000).tofile(tmp_path / f"part{index}.bin")
    array = tiermap.map(f"concat:{tmp_path}/part0.bin,{tmp_path}/part1.bin", np.int64, mode="r+", budget="1MiB")
    with SPAWN.Pool(1) as pool:
        assert pool.apply(total, (array,)) == float(array.sum())
        with pytest.raises(ValueError, match="read-only"):
            pool.apply(try_to_write, (array,))


def test_forking_while_threads_fault(rows, program):
    """The child has one thread, and locks that others held."""
    ended = program("""
        import os, sys, threading
        import numpy as np
        import tiermap
        array = tiermap.map(sys.argv[1], budget="1MiB", page_size="4KiB")
        expected = np.load(sys.argv[1])
        stop = False
        def touch(seed):
            random = np.random.default_rng(seed)
            while not stop:
                row = random.integers(0, len(array))
                assert array[row, 7] == expected[row, 7]
        threads = [threading.Thread(target=touch, args=(seed,)) for seed in range(3)]
        [thread.start() for thread in threads]
        for _ in range(20):
            child = os.fork()
            if child == 0:
                os._exit(0 if np.array_equal(array[::50], expected[::50]) else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop = True
        [thread.join() for thread in threads]
        print("good")
        """, rows[0])
    assert ended.output == "good\n" and ended.code == 0, ended


def test_what_cannot_follow_a_fork_is_said(program):
    ended = program("""
        import os
        import tiermap
        array = tiermap.map("memory:1MiB", mode="r+", budget="1MiB")
        array[:] = 1
        child = os.fork()
        if child == 0:
            array[0]
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), array[0])
        """)
    assert "cannot be used in the forked child" in ended.errors
    assert ended.output == f"{-signal.SIGSEGV} 1\n", ended


def test_children_are_served_by_the_process_of_a_store(program):
    """fork() while locks of other modules are held by it: nothing in it may fork or lock again."""
    ended = program("""
        import os
        import numpy as np
        import tiermap
        import concurrent.futures.thread, logging  # After it: their hooks are about when its own run.
        class Store:
            size = 1 << 20
            def read_into(self, offset, buffer):
                buffer[:] = b"s" * len(buffer)
        array = tiermap.map(Store(), budget="1MiB")
        assert array[5] == ord("s")
        child = os.fork()
        if child == 0:
            os._exit(0 if (np.asarray(array) == ord("s")).all() else 1)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(array.sum()) == ord("s") << 20)
        """)
    assert ended.output == "0 True\n", ended


def child_of_fork(look):
    """What look() gives in a forked child, as a number; the child is ended by what it raises or touches."""
    child = os.fork()
    if child == 0:
        faulthandler.disable()  # That it is ended is what some tests want.
        try:
            os._exit(int(look()))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def replaced(path):
    """Another file under the same name, of the same size."""
    np.full(os.path.getsize(path), 77, np.uint8).tofile(f"{path}.new")
    os.replace(f"{path}.new", path)


def named(kind, folder):
    """Where to map 4 KiB and more, and the file of it that is to be replaced."""
    for name in ("a.bin", "b.bin"):
        np.full(4096, 5, np.uint8).tofile(folder / name)
    return {"path": folder / "a.bin", "url": f"file://{folder}/a.bin",
            "concat": f"concat:{folder}/b.bin,{folder}/a.bin",
            "pattern": f"file://{folder}/[a-b].bin"}[kind], folder / "a.bin"


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize("kind", ["path", "url", "concat", "pattern"])
def test_a_forked_child_does_not_follow_to_another_file(tmp_path, capfd, kind, mode):
    where, path = named(kind, tmp_path)
    array = tiermap.map(where, mode=mode, budget="1MiB")
    assert array[0] == 5
    replaced(path)
    assert child_of_fork(lambda: array[4095]) == -signal.SIGSEGV
    said = capfd.readouterr().err
    assert "cannot be used in the forked child" in said and str(tmp_path) in said
    if mode == "r" or kind in ("path", "url"):
        assert "not what was mapped" in said
    assert array[0] == array[4095] == 5, "here it is what it was"
    array.drop()
    assert array[0] == 5


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_pickle_of_a_file_that_was_cut_off_is_refused(tmp_path, program, mode):
    path = tmp_path / "numbers"
    np.arange(300_000).tofile(path)
    array = tiermap.map(path, dtype="i8", mode=mode, budget="1MiB")
    sent = pickle.dumps(array)
    del array
    assert pickle.loads(sent)[-1] == 299_999
    os.truncate(path, 2_399_992)
    with pytest.raises(OSError, match="has 2399992 bytes, and had 2400000") as caught:
        pickle.loads(sent)
    assert caught.value.errno == errno.ESTALE and "\n" not in str(caught.value)
    ended = program("import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))", sent.hex())
    assert "was cut off since" in ended.errors and ended.code == 1, ended
    assert path.stat().st_size == 2_399_992


def of_a_scratch_file(_):
    with tempfile.TemporaryDirectory() as folder:
        array = tiermap.memmap(f"{folder}/scratch.bin", np.int64, "w+", shape=(4, 1000))
        array[:] = 7
        return array[1]


def test_a_worker_returns_what_lies_in_a_file_that_is_gone(tmp_path):
    """By value: that it cannot be loaded by its name, multiprocessing takes for the end of a pipe, and waits for ever."""
    with FORK.Pool(1) as pool:
        assert [got.sum() for got in pool.map(of_a_scratch_file, range(2))] == [7000, 7000]
    path = tmp_path / "numbers.bin"
    np.arange(1000).tofile(path)
    array = tiermap.map(path, "i8", budget="1MiB")
    replaced(path)
    with SPAWN.Pool(1) as pool:
        assert pool.apply_async(total, (array,)).get(100) == 499_500


@pytest.mark.parametrize("kind", ["path", "url", "concat", "pattern"])
def test_a_pickle_does_not_follow_to_another_file(tmp_path, program, kind):
    where, path = named(kind, tmp_path)
    array = tiermap.map(where, budget="1MiB")
    sent = pickle.dumps(array)
    assert np.array_equal(pickle.loads(sent), array)
    replaced(path)
    with pytest.raises(OSError, match=f"{tmp_path}.* is not what was mapped") as caught:
        pickle.loads(sent)
    assert caught.value.errno == errno.ESTALE and "\n" not in str(caught.value)
    ended = program("import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))", sent.hex())
    assert "is not what was mapped" in ended.errors and ended.code == 1, ended
    del array
    with pytest.raises(OSError, match="is not what was mapped"):
        pickle.loads(sent)
    path.unlink()
    with pytest.raises(OSError):
        pickle.loads(sent)


def test_what_matches_a_pattern_later_is_not_followed(tmp_path, capfd):
    where, _ = named("pattern", tmp_path)
    array = tiermap.map(where, budget="1MiB")
    sent = pickle.dumps(array)
    (tmp_path / "c.bin").write_bytes(bytes(10))
    assert np.array_equal(pickle.loads(sent), array) and child_of_fork(lambda: array[8191]) == 5
    (tmp_path / "a.bin").rename(tmp_path / "0.bin")
    with pytest.raises(OSError, match="is not what was mapped"):
        pickle.loads(sent)
    assert child_of_fork(lambda: array[8191]) == -signal.SIGSEGV and "not what was mapped" in capfd.readouterr().err


def test_a_descriptor_that_means_another_file_is_not_followed(tmp_path, capfd, program):
    """tiermap.memmap of a file that has no name."""
    file = tempfile.TemporaryFile(dir=tmp_path)
    file.write(b"x" * 4096)
    file.flush()
    array = tiermap.memmap(file, mode="r")
    sent = pickle.dumps(array)
    assert child_of_fork(lambda: array[0]) == ord("x") and pickle.loads(sent)[0] == ord("x")
    number = file.fileno()
    file.close()
    other = tmp_path / "other.bin"
    other.write_bytes(b"y" * 4096)
    opened = os.open(other, os.O_RDWR)
    os.dup2(opened, number)
    assert child_of_fork(lambda: array[0]) == -signal.SIGSEGV
    assert f"/proc/self/fd/{number} is not what was mapped" in capfd.readouterr().err
    with pytest.raises(OSError, match=f"/proc/self/fd/{number} is not what was mapped"):
        pickle.loads(sent)
    os.close(number)
    if opened != number:
        os.close(opened)
    assert child_of_fork(lambda: array[0]) == -signal.SIGSEGV
    with pytest.raises(OSError):
        pickle.loads(sent)
    assert array[0] == ord("x")
    ended = program("import pickle, sys; pickle.loads(bytes.fromhex(sys.argv[1]))", sent.hex())
    assert "Error" in ended.errors and f"/proc/self/fd/{number}" in ended.errors and ended.code == 1, ended


@pytest.mark.parametrize("where", ["x.bin", "file:x.bin", "file:./x.bin?direct=off", "concat:x.bin,y.bin@0+4KiB",
                                   "file:[x-y].bin", "sparse:many"])
def test_relative_names_are_those_of_when_it_was_mapped(tmp_path, monkeypatch, where):
    for folder in ("odd *[a], 100%@here?", "elsewhere"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        for name in ("x.bin", "y.bin"):
            np.full(4096, len(folder), np.uint8).tofile(name)
        tiermap.map("sparse:many", shape=4096, mode="w", budget="1MiB")[:] = len(folder)
    monkeypatch.chdir(tmp_path / "odd *[a], 100%@here?")
    array = tiermap.map(where, budget="1MiB", page_size="4KiB")
    sent = pickle.dumps(array)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert array[0] == 20 and child_of_fork(lambda: array[0] + array[-1]) == 40
    assert pickle.loads(sent)[0] == 20
    del array
    assert pickle.loads(sent)[0] == 20


def test_a_pickle_from_another_machine_is_of_what_its_name_leads_to_here(numbers, monkeypatch):
    """Devices and files have other numbers there."""
    path, values = numbers
    array = tiermap.map(path, np.int64, budget="1MiB")
    monkeypatch.setattr("tiermap._mapping.machine", lambda: "there")
    sent = pickle.dumps(array)
    monkeypatch.undo()
    replaced(path)
    assert pickle.loads(sent)[0] == np.full(8, 77, np.uint8).view(np.int64)[0] != values[0] == array[0]


def test_a_file_that_is_written_anew_is_the_same_file(numbers):
    """Not replaced: cut, and written again."""
    array = tiermap.map(numbers[0], np.int64, budget="1MiB")
    sent = pickle.dumps(array)
    numbers[1][::-1].copy().tofile(numbers[0])
    array.drop()
    assert pickle.loads(sent)[0] == numbers[1][-1] and child_of_fork(lambda: array[0] == numbers[1][-1]) == 1
    assert _location.machine() == _location.machine() != ""
