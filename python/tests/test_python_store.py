"""Stores written in Python: served while the thread that waits holds the interpreter's lock."""

import errno
import gc
import os
import re
import select
import signal
import threading

import numpy as np
import pytest

import tiermap
from conftest import MIB, known


def children_of_this_process():
    with open("/proc/thread-self/children") as children:
        return set(children.read().split())


class Closed:
    """Cannot be opened."""

    size = 10

    def open(self):
        raise RuntimeError("no\ntape")

    def read_into(self, offset, buffer):
        pass


class Squares:
    """Computes what is asked for."""

    def __init__(self, count):
        self.size = count * 8

    def read_into(self, offset, buffer):
        first, skip = divmod(offset, 8)
        last = -(-(offset + len(buffer)) // 8)
        data = (np.arange(first, last, dtype=np.int64) ** 2).tobytes()
        buffer[:] = data[skip:skip + len(buffer)]


class FileStore:
    """A file by seek and read, with what a store may have."""

    threads = 4

    def __init__(self, path):
        self.path = path

    def open(self):
        self.file = os.open(self.path, os.O_RDWR)

    def size(self):
        return os.fstat(self.file).st_size

    def read_into(self, offset, buffer):
        return os.preadv(self.file, [buffer], offset)

    def write_from(self, offset, buffer):
        return os.pwrite(self.file, buffer, offset)

    def flush(self):
        os.fsync(self.file)

    def close(self):
        os.close(self.file)


class Broken:
    """Its second half cannot be read."""

    size = MIB

    def read_into(self, offset, buffer):
        if offset >= self.size // 2:
            raise OSError(5, "the tape is torn")
        buffer[:] = b"b" * len(buffer)


def test_numpy_computes_on_it():
    array = tiermap.map(Squares(500000), np.int64, budget="1MiB")
    expected = np.arange(500000, dtype=np.int64) ** 2
    assert np.array_equal(array, expected)
    assert array[499999] == 499999 ** 2
    assert int(array[::1000].sum()) == int(expected[::1000].sum())
    assert np.array_equal(array[[5, 400000, 7, 9, 123456]], expected[[5, 400000, 7, 9, 123456]])


def test_written_and_read_back(numbers):
    path, values = numbers
    array = tiermap.map(FileStore(str(path)), np.int64, mode="r+", budget="1MiB", page_size="64KiB")
    array[::3] = -1
    values[::3] = -1
    array.sync()
    assert np.array_equal(np.fromfile(path, np.int64), values)
    array[5] = 12345
    del array
    gc.collect()
    assert np.fromfile(path, np.int64)[5] == 12345


class InMemory:
    """Bytes of its own, whole as they are asked for: a slice behind their end would be shorter than the buffer."""

    def __init__(self, data):
        self.data = bytearray(data)
        self.size = len(data)

    def read_into(self, offset, buffer):
        buffer[:] = self.data[offset:offset + len(buffer)]

    def write_from(self, offset, buffer):
        assert offset + len(buffer) <= self.size
        self.data[offset:offset + len(buffer)] = buffer


@pytest.mark.parametrize("size", [1, 4095, 4097, MIB + 3])
def test_a_store_is_never_asked_for_what_is_behind_its_size(size):
    data = np.arange(size).astype(np.uint8)
    array = tiermap.map(InMemory(data), mode="r+", budget="4MiB", page_size="16KiB")
    array.pin().release()  # What the store raises is an exception here, where an access would get SIGBUS.
    assert np.array_equal(array, data)
    array[-1] ^= 255
    array.sync()
    array.drop()
    assert array[-1] == data[-1] ^ 255


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_either_way_of_starting_its_process(numbers, how):
    path, values = numbers
    array = tiermap.map(FileStore(str(path)), np.int64, budget="1MiB", start=how)
    assert np.array_equal(array, values)


def test_a_size_may_be_known_once_the_store_is_open(numbers):
    sized = type("Sized", (FileStore,), {"size": property(FileStore.size)})
    assert np.array_equal(tiermap.map(sized(str(numbers[0])), np.int64, budget="1MiB"), numbers[1])


def test_a_spawned_process_keeps_no_descriptor_of_the_programs(numbers, capfd):
    """As docs/python.md says; and it says nothing on standard error itself."""
    ours, others = os.pipe()
    os.set_inheritable(others, True)
    array = tiermap.map(FileStore(str(numbers[0])), np.int64, budget="1MiB", start="spawn")
    os.close(others)
    assert select.select([ours], [], [], 20)[0] == [ours] and os.read(ours, 1) == b""
    os.close(ours)
    assert array[5] == numbers[1][5] and capfd.readouterr().err == ""


def test_its_process_ends_with_the_array():
    others = child_processes()
    array = tiermap.map(Squares(1000), np.int64)
    own = child_processes() - others
    assert array[7] == 49 and len(own) == 1
    del array
    gc.collect()
    assert not (child_processes() & own)


def child_processes():
    found = set()
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and int(open(f"/proc/{entry}/stat").read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                found.add(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def test_many_threads_of_which_each_may_hold_the_lock():
    array = tiermap.map(Squares(300000), np.int64, budget="512KiB", page_size="4KiB")
    wrong = []

    def touch(seed):
        for index in np.random.default_rng(seed).integers(0, 300000, 2000):
            if array[index] != int(index) ** 2:
                wrong.append(index)

    threads = [threading.Thread(target=touch, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_an_error_reaches_calls_as_an_exception(capfd):
    array = tiermap.map(Broken(), budget="4MiB", page_size="64KiB")
    assert bytes(array[:5]) == b"bbbbb"
    with pytest.raises(OSError) as caught:
        tiermap.pin(array[MIB - 10:])
    assert caught.value.errno == 5 and isinstance(caught.value.__cause__, tiermap.StoreFailure)
    assert "the tape is torn" in str(caught.value.__cause__) and "read_into" in str(caught.value.__cause__)
    assert "the tape is torn" in capfd.readouterr().err
    assert bytes(array[:5]) == b"bbbbb"


def test_what_a_store_raised_before_is_no_cause_of_a_budget_that_is_too_small(capfd):
    class Failing:
        size = 1 << 20

        def read_into(self, offset, buffer):
            if offset < 65536:
                raise RuntimeError("cannot read the beginning")

    array = tiermap.map(Failing(), budget="256KiB", page_size="4KiB")
    with pytest.raises(OSError) as failed:
        tiermap.pin(array[:10])
    assert "cannot read the beginning" in str(failed.value.__cause__)
    with pytest.raises(OSError) as refused:
        tiermap.pin(array[65536:])
    assert refused.value.errno == errno.ENOMEM and refused.value.__cause__ is None


def test_an_error_of_any_length_and_letters_is_the_cause():
    class Wordy(Broken):
        def read_into(self, offset, buffer):
            raise ValueError(offset // 4096 * "x" + "\N{GREEK SMALL LETTER ALPHA}" * 100_000)

    array = tiermap.map(Wordy(), budget="1MiB", page_size="4KiB")
    for page in (1, 2):  # Where it is cut is in the middle of a letter once.
        with pytest.raises(OSError) as caught:
            tiermap.pin(array[page * 4096:page * 4096 + 1])
        assert "\N{GREEK SMALL LETTER ALPHA}" * 3000 in str(caught.value.__cause__)


def test_of_failures_that_are_alike_the_first_is_printed_and_the_others_are_counted(program):
    ended = program("""
        import tiermap
        class Broken:
            size = 1 << 20
            threads = 4
            def read_into(self, offset, buffer):
                if offset >= self.size // 2:
                    raise OSError(5, f"no block at {offset}")
                raise KeyError(offset)
        array = tiermap.map(Broken(), budget="1MiB", page_size="4KiB", read_ahead=0)
        for page in range(256):
            try:
                tiermap.pin(array[4096 * page:4096 * page + 1])
            except OSError as error:
                said = str(error.__cause__)
                assert ("KeyError" if page < 128 else "no block at") in said, said
        del array
        """, timeout=60)
    assert ended.code == 0, ended
    assert ended.errors.count("Traceback") == 2, ended
    counted = re.findall(r"failed to read (\d+) times more with (\w+) \(<string>:\d+\)\n", ended.errors)
    assert sorted(kind for _, kind in counted) == ["KeyError", "OSError"], ended
    assert all(int(count) >= 127 for count, _ in counted), ended


def test_a_store_that_fails_where_nobody_can_be_told_so(program):
    """Standard error is full, then closed, then none: who waits for the page is not left waiting."""
    ended = program("""
        import os, sys, tiermap
        class Broken:
            size = 1 << 20
            def read_into(self, offset, buffer):
                raise KeyError("no such block")
        def fail():
            array = tiermap.map(Broken(), budget="1MiB")
            try:
                tiermap.pin(array[:10])
            except OSError as error:
                print(error.errno, "no such block" in str(error.__cause__), flush=True)
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
        fail()
        sys.stderr.close()
        fail()
        sys.stderr = None
        fail()
        """, timeout=60)
    assert ended.output == "5 True\n" * 3, ended


BROKEN = """
    import numpy as np, tiermap
    class Broken:
        size = 1 << 20
        def read_into(self, offset, buffer):
            {failure}
    array = tiermap.map(Broken(), budget="4MiB")
    print("mapped", flush=True)
    print(array.sum())
    """


@pytest.mark.parametrize("failure", ["raise KeyError('no such block')", "return 1 << 40", "return 'all'",
                                     "import os; os._exit(3)", "raise SystemExit", "1 / 0"])
def test_an_error_reaches_the_thread_that_touched_the_page(program, failure):
    ended = program(BROKEN.format(failure=failure), timeout=60)
    assert ended.output == "mapped\n"
    assert ended.code == -signal.SIGBUS, ended
    assert "Bus error" in ended.errors and 'File "<string>"' in ended.errors  # Where it was touched.
    if "_exit" not in failure:
        assert "failed to read" in ended.errors and "Traceback" in ended.errors  # Why.


@pytest.mark.parametrize("returned", [True, False, 1.5, float("nan"), "all", b"1", []])
@pytest.mark.parametrize("name", ["read_into", "write_from"])
def test_a_store_that_returns_no_number_of_bytes_is_told_so(name, returned):
    """False is not nothing read, so zeros, and True is not one byte, so that the next is asked for."""
    members = {"size": 4096, "read_into": lambda *_: None, "write_from": lambda *_: None}
    array = tiermap.map(type("Odd", (), {**members, name: lambda *_: returned})(), mode="r+", budget="1MiB")
    with pytest.raises(OSError) as caught:
        if name == "read_into":
            tiermap.pin(array)
        else:
            array[:] = 1
            array.sync()
    assert f"{name} returned {returned!r}, which is no number of bytes: return what" in str(caught.value.__cause__)


def test_what_is_lost_with_an_array_is_said_and_nothing_advised(program):
    ended = program("""
        import tiermap
        class Full:
            size = 4096
            def read_into(self, offset, buffer):
                pass
            def write_from(self, offset, buffer):
                raise OSError(28, "full")
        array = tiermap.map(Full(), mode="r+", budget="1MiB")
        array[:] = 1
        del array
        """)
    line = "tiermap: data of an array that was given up is lost: cannot write back to Full: No space left on device"
    assert line in ended.errors.splitlines(), ended


@pytest.mark.parametrize("returned", ["np.int32(count)", "count", "None", "np.array(count)"])
def test_a_store_may_return_any_whole_number(program, returned):
    ended = program(f"""
        import numpy as np, tiermap
        class Ones:
            size = 1 << 20
            def read_into(self, offset, buffer):
                count = len(buffer)
                buffer[:] = b"\\1" * count
                return {returned}
        print(tiermap.map(Ones()).sum())
        """)
    assert ended.output == "1048576\n" and ended.errors == "", ended


def test_a_script_that_spawns_wherever_it_is_imported_is_told_so(script):
    """Its store's process imports it, too."""
    ended = script("""
        import tiermap
        class Store:
            size = 4096
            def read_into(self, offset, buffer):
                pass
        tiermap.map(Store(), start="spawn")
        """)
    assert ended.code == 1 and "if __name__ == '__main__':" in ended.errors.strip().rpartition("\n")[2], ended


def test_a_store_that_fills_less_than_it_says_shows_zeros():
    class Lazy:
        size = 256 << 10

        def read_into(self, offset, buffer):
            if (offset >> 12) % 2 == 0:
                buffer[:] = b"x" * len(buffer)

    array = tiermap.map(Lazy(), budget="1MiB", page_size="4KiB", read_ahead=0)
    assert set(array[:4096]) == {ord("x")} and set(array[4096:8192]) == {0}


@pytest.mark.parametrize("size", [-1, "many", None, 2.5, 1 << 63, 1 << 64, 10**30])
def test_sizes_that_cannot_be(size):
    store = type("Odd", (), {"size": size, "read_into": lambda *_: None})()
    assert tiermap.default_cache().engine.minimum_budget > 0, "what has descriptors of its own is there"
    gc.collect()
    before, children = len(os.listdir("/proc/self/fd")), children_of_this_process()
    with pytest.raises(OSError, match="could not be opened in its process: .*Error: size is .*bytes$") as caught:
        tiermap.map(store)
    assert "Error" in str(caught.value.__cause__) and "\n" not in str(caught.value)
    assert len(os.listdir("/proc/self/fd")) == before
    assert children_of_this_process() == children


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_store_that_does_not_open_says_why_in_its_error(start):
    with pytest.raises(OSError, match="Closed could not be opened in its process: RuntimeError: no tape$") as caught:
        tiermap.map(Closed(), start=start)
    assert "in open" in str(caught.value.__cause__)


def test_a_store_that_cannot_be_pickled_says_so_to_spawn(numbers):
    store = FileStore(str(numbers[0]))
    store.lock = threading.Lock()
    with pytest.raises(TypeError, match="pickle"):
        tiermap.map(store, start="spawn")


def test_threads_map_stores_at_once_while_others_fork(program):
    """The process of one store, or any other, keeps nothing open that the end of another's start waits for."""
    ended = program("""
        import multiprocessing, threading, time
        import numpy as np
        import tiermap
        class Ones:
            size = 4096
            def read_into(self, offset, buffer):
                buffer[:] = b"\\1" * len(buffer)
        def map_some():
            for _ in range(5):
                sums.append(int(tiermap.map(Ones(), cache=cache).sum()))
        cache = tiermap.Cache("4MiB")
        sums = []
        context = multiprocessing.get_context("fork")
        threads = [threading.Thread(target=map_some) for _ in range(4)]
        for thread in threads:
            thread.start()
        others = [context.Process(target=time.sleep, args=(5,)) for _ in range(4)]
        for other in others:
            other.start()
        for thread in threads:
            thread.join()
        print(sums == [4096] * 20, all(other.is_alive() for other in others))
        for other in others:
            other.kill()
        """, timeout=60)
    assert ended.output == "True True\n", ended


def test_why_a_store_cannot_be_opened_is_said_also_where_children_are_ignored(program):
    """Nobody is there then to wait for."""
    ended = program("""
        import signal
        import tiermap
        class Broken:
            size = 4096
            def open(self):
                raise RuntimeError("no such medium")
            def read_into(self, offset, buffer):
                pass
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            tiermap.map(Broken())
        except OSError as error:
            print(error)
        """)
    assert ended.output == "store Broken could not be opened in its process: RuntimeError: no such medium\n", ended


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_signals_to_all_processes_are_the_programs(script, tmp_path, start):
    """As ``timeout``, job schedulers and service managers send them: the program may want to write what it has."""
    path = tmp_path / "stored"
    path.write_bytes(bytes(1 << 16))
    ended = script("""
        import os, signal, subprocess, sys
        import numpy as np
        import tiermap
        class Store:
            size = 1 << 16
            def open(self):
                self.file = open(sys.argv[1], "r+b", buffering=0)
            def read_into(self, offset, buffer):
                buffer[:] = os.pread(self.file.fileno(), len(buffer), offset)
            def write_from(self, offset, buffer):
                os.pwrite(self.file.fileno(), buffer, offset)
            def flush(self):  # What it starts is ended by signals.
                with subprocess.Popen(["sleep", "1000"]) as started:
                    started.terminate()
                ready, said = os.pipe()
                child = os.fork()
                if child == 0:
                    os.write(said, b"+")
                    signal.pause()
                os.read(ready, 1)
                os.kill(child, signal.SIGTERM)
                os.waitpid(child, 0)
        if __name__ == "__main__":
            numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2]
            got = []
            for number in numbers:
                signal.signal(number, lambda which, _: got.append(which))
            array = tiermap.map(Store(), np.uint8, mode="r+", budget="1MiB", start=sys.argv[2])
            for number in numbers:
                os.killpg(0, number)
            array[:] = 7
            array.sync()
            print(sorted(got) == sorted(numbers))
        """, path, start, timeout=60)
    assert ended.output == "True\n", ended
    assert path.read_bytes() == b"\7" * (1 << 16)
