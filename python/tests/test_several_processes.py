"""Arrays of one plain file in several processes are one memory, whoever comes first and however it was started."""

import errno
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tiermap
from tiermap import _core

FORK = multiprocessing.get_context("fork")
SPAWN = multiprocessing.get_context("spawn")
FORKSERVER = multiprocessing.get_context("forkserver")
CONTEXTS = pytest.mark.parametrize("context", [FORK, SPAWN, FORKSERVER], ids=["fork", "spawn", "forkserver"])
SECONDS = 100
ROWS = 1000


@pytest.fixture
def out(tmp_path):
    """A file of zeros, of a row of 64 bytes for each number."""
    path = tmp_path / "out.bin"
    np.zeros((ROWS, 8), np.int64).tofile(path)
    return path


def mapped(path, mode="r+", **options):
    return tiermap.memmap(path, np.int64, mode, shape=(ROWS, 8), budget="1MiB", **options)


def numbered():
    return np.arange(1, ROWS + 1)[:, np.newaxis] * np.ones(8, np.int64)


def eventually(condition):
    """Whether it comes true; only a test that fails waits long."""
    deadline = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.001)
    return condition()


class Worker:
    """A process that has the file mapped, and does with it what it is told."""

    def __init__(self, context, path, mode, array=None):
        self.mine, others = context.Pipe()
        self.process = context.Process(target=serve, args=(others, path, mode, array), daemon=True)
        self.process.start()

    def ask(self, name, *arguments):
        self.mine.send((name, *arguments))
        assert self.mine.poll(SECONDS), "no answer"
        return self.mine.recv()

    def end(self):
        self.mine.send(("end",))
        self.process.join(SECONDS)
        assert self.process.exitcode == 0


def serve(pipe, path, mode, array):
    if array is None:
        array = mapped(path, mode)
    while True:
        name, *arguments = pipe.recv()
        if name == "end":
            return
        if name == "store":
            array[arguments[0]] = arguments[1]
        pipe.send(array[arguments[0]].tolist() if name == "load" else array._mapping.through_kernel)


array_before_the_fork = None


def fill(first):
    array_before_the_fork[first::4] = numbered()[first::4]


def test_a_parent_stores_after_the_fork_and_gives_its_array_up(out):
    """What it had in memory is not to come over what the workers have stored."""
    global array_before_the_fork
    array_before_the_fork = mapped(out)
    with FORK.Pool(4) as pool:
        array_before_the_fork[:] = -1
        pool.map_async(fill, range(4), chunksize=1).get(SECONDS)
        assert np.array_equal(array_before_the_fork, numbered())
        array_before_the_fork = None
        assert np.array_equal(np.fromfile(out, np.int64).reshape(ROWS, 8), numbered())


def grow(path):
    longer = tiermap.memmap(path, np.int64, "r+", shape=(2 * ROWS, 8))
    longer[ROWS:] = longer[:ROWS]
    longer[0] = 7


def test_a_forked_worker_makes_the_file_longer_that_its_parent_has(out):
    array = mapped(out)
    array[:] = numbered()
    worker = FORK.Process(target=grow, args=(out,))
    worker.start()
    worker.join(SECONDS)
    assert worker.exitcode == 0 and array[0].tolist() == [7] * 8
    assert np.array_equal(mapped(out)[1:], numbered()[1:])
    longer = tiermap.memmap(out, np.int64, "r+", shape=(2 * ROWS, 8))
    assert np.array_equal(longer[ROWS:], numbered())


def store_rows(arguments):
    path, first = arguments
    array = mapped(path)
    for row in range(first, ROWS, 4):
        array[row] = row + 1
    return os.getpid()


@CONTEXTS
def test_workers_that_map_by_name_store_rows_that_lie_side_by_side(out, context):
    for _ in range(3):
        np.zeros((ROWS, 8), np.int64).tofile(out)
        with context.Pool(4) as pool:
            pool.map_async(store_rows, [(out, first) for first in range(4)], chunksize=1).get(SECONDS)
        assert np.array_equal(np.fromfile(out, np.int64).reshape(ROWS, 8), numbered())


@CONTEXTS
def test_two_processes_that_store_all_the_time_lose_nothing(out, context):
    """Each its own elements of every block, while the one's memory is becoming the kernel's."""
    first = Worker(context, out, "r+")
    array = mapped(out)
    for turn in range(1, 50):
        array[turn % 7::7, 0] = turn
        assert first.ask("store", turn, turn)
    assert all(first.ask("load", row)[1:] == [row] * 7 for row in range(1, 50))
    assert array[49].tolist()[1:] == [49] * 7
    first.end()


@CONTEXTS
def test_a_pickled_array_sees_what_its_sender_stores_later(out, context):
    array = mapped(out)
    array[3] = 3
    worker = Worker(context, out, "r+", array)
    assert worker.ask("load", 3) == [3] * 8
    array[3] = 33
    assert worker.ask("load", 3) == [33] * 8
    worker.ask("store", 4, 44)
    assert array[4].tolist() == [44] * 8 and array._mapping.through_kernel
    worker.end()


@pytest.mark.parametrize("mode", ["r", "r+"])
@CONTEXTS
def test_who_came_first_sees_what_is_stored_by_who_came_later(out, context, mode):
    """A reader that was alone has to give up what it has read."""
    worker = Worker(context, out, mode)
    assert worker.ask("load", 5) == [0] * 8
    array = mapped(out)
    array[5] = 55
    assert worker.ask("load", 5) == [55] * 8
    array[5] = 56
    assert worker.ask("load", 5) == [56] * 8
    worker.end()


@CONTEXTS
def test_who_comes_later_to_read_sees_what_is_stored_from_then_on(out, context):
    array = mapped(out)
    array[5] = 5
    worker = Worker(context, out, "r")
    assert worker.ask("load", 5) == [5] * 8
    array[5] = 55
    assert worker.ask("load", 5) == [55] * 8
    worker.end()


def test_readers_are_served_in_each_process(out):
    array = mapped(out, "r")
    worker = Worker(SPAWN, out, "r")
    assert worker.ask("load", 5) == [0] * 8
    assert not worker.ask("kind", 5) and not array._mapping.through_kernel
    worker.end()


def test_a_reader_of_this_process_goes_along_when_it_becomes_a_writer_beside_others(out):
    """Another process reads the file: nobody has asked for what is served here."""
    worker = Worker(SPAWN, out, "r")
    worker.ask("load", 5)
    reader = mapped(out, "r")
    assert reader[5, 0] == 0 and not reader._mapping.through_kernel
    writer = mapped(out)
    writer[5] = 55
    assert reader[5].tolist() == [55] * 8 == worker.ask("load", 5)
    worker.end()


def test_a_private_copy_is_nobody_elses(out):
    copy = mapped(out, "c")
    copy[5] = 7
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    assert copy[5].tolist() == [7] * 8 and worker.ask("load", 5) == [55] * 8
    worker.end()
    later = mapped(out, "c")
    assert later[5].tolist() == [55] * 8


def test_a_private_copy_begins_with_what_others_have_stored(out):
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    assert mapped(out, "c")[5].tolist() == [55] * 8
    worker.end()


def test_replacing_a_file_replaces_what_others_have_mapped(out):
    """What they have stored before is not written over it."""
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    array = mapped(out, "w+")
    assert array[5].tolist() == [0] * 8 == worker.ask("load", 5)
    array[6] = 66
    assert worker.ask("load", 6) == [66] * 8
    worker.end()
    del array
    assert np.fromfile(out, np.int64).reshape(ROWS, 8)[5:7, 0].tolist() == [0, 66]


def test_threads_notice_nothing(tmp_path):
    """Of the change from one memory to the other: all that they store, write, pin and ask for is as before."""
    path = tmp_path / "x.bin"
    np.zeros(1 << 20, np.int64).tofile(path)
    for _ in range(5):
        array = tiermap.memmap(path, np.int64, "r+", budget="2MiB")
        array[:] = 0
        stop, counts, failures = threading.Event(), [0, 0], []

        def store(index):
            while not stop.is_set():
                array[index::1000] += 1
                counts[index] += 1

        def use(action):
            try:
                while not stop.is_set():
                    action()
            except Exception as error:
                failures.append(error)

        held = [tiermap.pin(array[5000:6000]) for _ in range(2)]
        actions = [array.sync, lambda: tiermap.pin(array[:9000]).release(), lambda: array.advise("random"),
                   lambda: tiermap.prefetch(array[9000:99000]).wait(), array.drop, array.stats]
        threads = [threading.Thread(target=store, args=(index,)) for index in range(2)]
        threads += [threading.Thread(target=use, args=(action,)) for action in actions]
        for thread in threads:
            thread.start()
        assert eventually(lambda: min(counts) > 3)
        script = "import sys, tiermap; a = tiermap.memmap(sys.argv[1], 'i8'); a[7::1000] = 7"
        subprocess.run([sys.executable, "-c", script, path], check=True, timeout=SECONDS)
        before = list(counts)
        assert eventually(lambda: all(now > then + 3 for now, then in zip(counts, before)))
        stop.set()
        for thread in threads:
            thread.join()
        assert failures == [] and array._mapping.through_kernel
        held.pop().release()
        held.pop().release()
        for index, count in [*enumerate(counts), (7, 7)]:
            assert (array[index::1000] == count).all()
        del array


def test_a_killed_worker_is_waited_for_by_nobody(out):
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.join()
    array = mapped(out)
    assert not array._mapping.through_kernel
    array[6] = 6
    del array
    assert np.fromfile(out, np.int64).reshape(ROWS, 8)[6, 0] == 6


def test_beside_a_stopped_writer_nothing_is_mapped_that_would_be_lost(out):
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    os.kill(worker.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(OSError, match="does not answer") as raised:
            mapped(out)
    finally:
        os.kill(worker.process.pid, signal.SIGCONT)
    assert raised.value.errno == errno.EBUSY
    array = mapped(out)
    array[6] = 66
    assert array[5].tolist() == [55] * 8 and worker.ask("load", 6) == [66] * 8
    worker.end()


def test_what_a_killed_worker_has_stored_beside_others_is_there(out):
    """It was in their memory."""
    array = mapped(out)
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.join()
    assert array[5].tolist() == [55] * 8


def test_an_array_is_served_again_when_its_process_is_alone_again(out):
    array = mapped(out)
    assert not array._mapping.through_kernel
    worker = Worker(SPAWN, out, "r+")
    assert worker.ask("kind", 0)
    assert array._mapping.through_kernel
    worker.end()
    del array
    again = mapped(out)
    again[5] = 5
    assert not again._mapping.through_kernel
    worker = Worker(SPAWN, out, "r+")
    assert worker.ask("load", 5) == [5] * 8 and again._mapping.through_kernel
    worker.end()


def test_an_array_that_is_given_up_is_written_before_another_process_stores(tmp_path):
    """Its blocks are on their way to the file when the other process asks for it."""
    path = tmp_path / "x.bin"
    np.zeros(4 << 20, np.int64).tofile(path)
    script = "import sys, tiermap; tiermap.memmap(sys.argv[1], 'i8')[::512] = 7"
    for _ in range(3):
        array = tiermap.memmap(path, np.int64, "r+", budget="64MiB")
        array[:] = 1
        with subprocess.Popen([sys.executable, "-c", script, path]) as other:
            thread = threading.Thread(target=lambda mine: mine.clear(), args=([array],))
            del array
            thread.start()
            thread.join()
            assert other.wait(SECONDS) == 0
        got = np.fromfile(path, np.int64)
        assert (got[::512] == 7).all() and (got[1::512] == 1).all()


def test_a_growing_file(out):
    """The one who makes it longer maps all of it."""
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    longer = tiermap.memmap(out, np.int64, "r+", shape=(2 * ROWS, 8))
    longer[-1] = 9
    assert longer[5].tolist() == [55] * 8
    longer[6] = 6
    assert worker.ask("load", 6) == [6] * 8
    worker.end()


def test_who_makes_a_file_anew_with_nothing_in_it_is_noticed(out):
    """What another process had stored is gone, as with any other size."""
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 5, 55)
    assert tiermap.memmap(out, np.int64, "w+", shape=0).size == 0
    assert worker.ask("is the kernel's")
    worker.mine.send(("end",))
    worker.process.join(SECONDS)
    assert out.stat().st_size == 0


def test_forks_beside_threads_that_map(out, program):
    """Whatever another thread is at with the table, the child begins anew."""
    ended = program("""
        import os, sys, threading
        import numpy as np
        import tiermap
        stop = threading.Event()
        def map_again_and_again():
            while not stop.is_set():
                tiermap.memmap(sys.argv[1], "i8", "r+")[:8] = 5
        threads = [threading.Thread(target=map_again_and_again) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                tiermap.memmap(sys.argv[1], "i8", "r+")[8:] = 5
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads:
            thread.join()
        print((np.fromfile(sys.argv[1], "i8") == 5).sum())
        """, out)
    assert ended.output == f"{8 * ROWS}\n" and ended.code == 0, ended


def with_memory_at(folder, options, *command):
    """Runs a command to its end that has a file system in memory there, mounted with those options, to itself."""
    mount = f'mount -t tmpfs {options} none "$0" && exec "$@"'
    alone = ["unshare", "--mount", "sh", "-c", mount, str(folder)]
    if subprocess.run([*alone, "true"], capture_output=True, timeout=60, check=False).returncode != 0:
        pytest.skip("file systems cannot be mounted here")
    return subprocess.run([*alone, *command], capture_output=True, text=True, timeout=SECONDS, check=False)


def test_the_table_goes_with_the_last_process(out):
    """Its file would lie in memory for ever."""
    script = """if True:
        import multiprocessing, os, sys, tiermap
        array = tiermap.memmap(sys.argv[1], "i8", "r+")
        def store():
            array[:] = 5
        worker = multiprocessing.get_context("fork").Process(target=store)
        worker.start(), worker.join()
        print(worker.exitcode, [name for name in os.listdir("/dev/shm") if "mappings" in name] != [], flush=True)
        """
    listing = "\"$@\"; ls /dev/shm | grep mappings"
    ended = with_memory_at("/dev/shm", "", "sh", "-c", listing, "sh", sys.executable, "-c", script, out)
    assert ended.stdout == "0 True\n", ended


def test_without_shared_memory_arrays_are_served_as_ever(out):
    script = """if True:
        import sys, tiermap
        array = tiermap.memmap(sys.argv[1], "i8", "r+")
        array[:] = 5
        print(array._mapping.through_kernel)
        """
    ended = with_memory_at("/dev/shm", "-o ro", sys.executable, "-c", script, out)
    assert ended.stdout == "False\n" and ended.stderr == "", ended
    assert (np.fromfile(out, np.int64) == 5).all()


def test_that_an_array_cannot_follow_is_said(tmp_path):
    """Its file cannot be written: it keeps what is dirty, and the other process does not wait for that."""
    script = """if True:
        import os, subprocess, sys, tiermap
        path = sys.argv[1]
        with open(path, "wb") as file:
            file.truncate(8 << 20)
        array = tiermap.memmap(path, "i8", "r+", budget="16MiB")
        array[:] = 1
        other = "import sys, tiermap; print(tiermap.memmap(sys.argv[1], 'i8', 'r')[0])"
        print(subprocess.run([sys.executable, "-c", other, path]).returncode, array._mapping.through_kernel, array.sum(),
              flush=True)
        os._exit(0)
        """
    ended = with_memory_at(tmp_path, "-o size=1m", sys.executable, "-c", script, tmp_path / "x.bin")
    assert ended.stdout.splitlines()[-1] == f"0 False {1 << 20}", ended
    assert "is mapped anew" in ended.stderr and "No space left on device" in ended.stderr


def test_fault_mode_kernel_beside_the_others(out):
    """In one process, and between two."""
    reader = tiermap.Cache("1MiB", fault_mode="kernel").map(out, np.int64, (ROWS, 8))
    array = mapped(out)
    array[5] = 5
    assert reader[5].tolist() == [5] * 8
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 6, 6)
    assert reader[6].tolist() == [6] * 8 == array[6].tolist()
    worker.end()


def test_what_is_pinned_when_another_process_comes_is_unpinned_as_before(out):
    array = mapped(out)
    held = tiermap.pin(array[:500])
    worker = Worker(SPAWN, out, "r+")
    worker.ask("store", 6, 6)
    with tiermap.pin(array[:500]):
        held.release()
    with pytest.raises(ValueError):
        _core.Region.unpin(array._mapping, 0, array.nbytes)
    worker.end()


def test_a_pickle_beside_its_sender_is_one_mapping(out):
    array = mapped(out)
    worker = Worker(SPAWN, out, "r+")
    worker.ask("load", 0)
    assert pickle.loads(pickle.dumps(array))._mapping is array._mapping
    worker.end()
