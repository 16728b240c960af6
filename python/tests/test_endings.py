"""Signals, threads, and the interpreter's end while arrays live: nothing hangs, nothing that was written is lost."""

import fcntl
import signal
import subprocess
import time

import numpy as np
import pytest

from conftest import known


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "raise SystemExit(0)", "builtins.kept = array; del array",
                                    "threading.Thread(target=touch, daemon=True).start()"])
def test_the_interpreter_ends_with_live_arrays(numbers, program, ending):
    path, values = numbers
    for _ in range(3):
        ended = program(f"""
            import builtins, sys, threading
            import numpy as np
            import tiermap
            array = tiermap.map(sys.argv[1], np.int64, mode="r+", budget="1MiB")
            other = tiermap.map(sys.argv[1], np.int64, mode="c")
            def touch():
                while True:
                    other[np.random.randint(0, len(other), 10)].sum()
            array[77] += 1
            cycle = [other]
            cycle.append(cycle)
            {ending}
            """, path)
        assert ended.code == 0 and ended.errors == "", ended
        values[77] += 1
        assert np.array_equal(np.fromfile(path, np.int64), values)


@pytest.mark.parametrize("keeper", ["pass", "threading.Thread(target=keep, args=(array,), daemon=True).start()",
                                    "builtins.kept = array"])
def test_functions_for_the_end_write_that_were_named_before_the_import(numbers, program, keeper):
    path, values = numbers
    ended = program(f"""
        import atexit, builtins, sys, threading, time
        @atexit.register
        def write():
            array[77] += 1
        import tiermap
        def keep(array):
            time.sleep(1000)
        array = tiermap.map(sys.argv[1], "i8", mode="r+", budget="1MiB")
        {keeper}
        """, path)
    assert ended.code == 0 and ended.errors == "", ended
    values[77] += 1
    assert np.array_equal(np.fromfile(path, np.int64), values)


def test_another_interpreter_is_refused_and_the_main_one_goes_on(numbers, program):
    ended = program("""
        import sys
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        import tiermap
        array = tiermap.map(sys.argv[1], "i8", budget="1MiB")
        other = interpreters.create()
        lines = [f"import sys; sys.path[:] = {sys.path!r}", "try: import tiermap",
                 "except ImportError as error: print(str(error)[:55], flush=True)"]
        interpreters.run_string(other, chr(10).join(lines))
        interpreters.destroy(other)
        print(array[5], len(tiermap.map(sys.argv[1], "i8", budget="1MiB")))
        """, numbers[0])
    said = "tiermap is for the main interpreter of a process, and t"
    assert ended.code == 0 and ended.output == f"{said}\n{numbers[1][5]} {len(numbers[1])}\n", ended


def test_a_store_in_python_at_the_interpreters_end(tmp_path, program):
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    ended = program("""
        import os, sys
        import tiermap
        class File:
            size = 1 << 20
            def __init__(self, path): self.file = os.open(path, os.O_RDWR)
            def read_into(self, offset, buffer): return os.preadv(self.file, [buffer], offset)
            def write_from(self, offset, buffer): return os.pwrite(self.file, buffer, offset)
        array = tiermap.map(File(sys.argv[1]), mode="r+", budget="1MiB")
        array[123456] = 7
        """, tmp_path / "data")
    assert ended.code == 0 and ended.errors == "", ended
    assert (tmp_path / "data").read_bytes()[123456] == 7


def test_all_is_written_at_the_interpreters_end_where_no_thread_is_to_be_had(numbers, tmp_path, program):
    """As in a container that has all the threads that it may have."""
    (tmp_path / "data").write_bytes(bytes(1 << 20))
    ended = program("""
        import ctypes, os, sys, threading, time
        import tiermap
        class File:
            size = 1 << 20
            def __init__(self, path): self.file = os.open(path, os.O_RDWR)
            def read_into(self, offset, buffer): return os.preadv(self.file, [buffer], offset)
            def write_from(self, offset, buffer): return os.pwrite(self.file, buffer, offset)
        def keep(*arrays):
            time.sleep(1000)
        array = tiermap.map(File(sys.argv[1]), mode="r+", budget="1MiB")
        other = tiermap.map(sys.argv[2], "i8", mode="r+", budget="1MiB")
        array[123456], other[7] = 7, -7
        threading.Thread(target=keep, args=(array, other), daemon=True).start()
        library, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(1024)
        library.pthread_attr_init(attributes)
        library.pthread_attr_setstacksize(attributes, ctypes.c_size_t(1 << 47))
        assert library.pthread_setattr_default_np(attributes) == 0
        """, tmp_path / "data", numbers[0])
    assert ended.code == 0 and ended.errors == "", ended
    assert (tmp_path / "data").read_bytes()[123456] == 7 and np.fromfile(numbers[0], np.int64)[7] == -7


@pytest.mark.parametrize("imported", ["at its work", "with the main module"])
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_a_worker_writes_at_its_end_what_it_has_mapped_itself(numbers, script, method, imported):
    ended = script("""
        import multiprocessing, sys
        if sys.argv[3] == "with the main module":
            import tiermap

        def fill(path):
            global kept
            import tiermap
            kept = tiermap.map(path, "i8", mode="r+", budget="1MiB")
            kept[:] = 7

        if __name__ == "__main__":
            worker = multiprocessing.get_context(sys.argv[2]).Process(target=fill, args=(sys.argv[1],))
            worker.start()
            worker.join()
            sys.exit(worker.exitcode)
        """, numbers[0], method, imported)
    assert ended.code == 0 and ended.errors == "", ended
    assert (np.fromfile(numbers[0], np.int64) == 7).all()


def test_signal_handlers_that_touch_arrays(rows, program):
    ended = program("""
        import signal, sys
        import numpy as np
        import tiermap
        array = tiermap.map(sys.argv[1], budget="512KiB", page_size="4KiB")
        expected = np.load(sys.argv[1])
        seen = []
        def handler(*_):
            row = len(seen) * 37 % len(array)
            seen.append(bool(array[row, 5] == expected[row, 5]))
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
        for _ in range(12):
            assert np.array_equal(array[::7], expected[::7])
            assert np.array_equal(array[np.arange(0, 4096, 11)], expected[::11])
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(all(seen), len(seen) > 3)
        """, rows[0])
    assert ended.output == "True True\n", ended


def test_control_c_ends_a_long_wait(program):
    """The store is slow; the wait for it is interrupted, and so is the process's end."""
    ended = program("""
        import os, signal, threading, time
        import tiermap
        class Slow:
            size = 64 << 20
            def read_into(self, offset, buffer):
                time.sleep(0.05)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # Who runs this may ignore it.
        array = tiermap.map(Slow(), budget="128MiB", page_size="64KiB")
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            tiermap.prefetch(array, wait=True)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            os._exit(0)
        """, timeout=60)
    assert ended.output == "interrupted\n", ended


def test_threads_that_hold_the_lock_while_they_fault(rows, program):
    """Element by element, each access under the interpreter's lock, more threads than processors."""
    ended = program("""
        import sys, threading
        import numpy as np
        import tiermap
        sys.setswitchinterval(1e-5)
        array = tiermap.map(sys.argv[1], mode="r+", budget="256KiB", page_size="4KiB")
        expected = np.load(sys.argv[1])
        wrong = []
        def touch(seed):
            random = np.random.default_rng(seed)
            for _ in range(400):
                row, column = int(random.integers(0, 4096)), int(random.integers(0, 150)) * 2
                if array[row, column] != expected[row, column]:
                    wrong.append((row, column))
                array[row, column + 1] = seed
        threads = [threading.Thread(target=touch, args=(seed,)) for seed in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        print(wrong)
        """, rows[0])
    assert ended.output == "[]\n", ended
    assert np.array_equal(np.load(rows[0])[:, ::2], rows[1][:, ::2])


def test_a_page_that_cannot_be_read_shows_pythons_stack(tmp_path, program):
    ended = program("""
        import os, sys
        import numpy as np
        import tiermap
        path = sys.argv[1]
        np.zeros(1 << 20, np.uint8).tofile(path)
        array = tiermap.map(path, budget="1MiB")
        os.truncate(path, 4096)
        def touch_what_is_gone():
            return array[-1]
        touch_what_is_gone()
        """, tmp_path / "cut")
    assert ended.code == -signal.SIGBUS and "touch_what_is_gone" in ended.errors, ended


def test_a_program_that_hangs_is_ended_with_its_children(program, tmp_path):
    """Of the tests themselves: what one leaves behind would slow the next ones down."""
    held = tmp_path / "held"
    with pytest.raises(subprocess.TimeoutExpired):
        program("""
            import fcntl, os, sys, time
            child = os.fork()
            if child == 0:
                with open(sys.argv[1], "w") as file:
                    fcntl.flock(file, fcntl.LOCK_EX)
                    print("held", file=file, flush=True)
                    time.sleep(100)
            os.waitpid(child, 0)
            """, held, timeout=5)
    with open(held) as file:
        assert file.read() == "held\n"
        for _ in range(200):  # Who is killed is gone, and with it its lock, a moment later.
            try:
                return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(0.1)
    pytest.fail("the child is still there")


ENDING_SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGXCPU]


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_script_that_is_told_to_end_keeps_what_it_has_stored(tmp_path, program, number):
    ended = program("""
        import os, resource, signal, sys, time
        import tiermap
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(int(sys.argv[2]), signal.SIG_DFL)  # Of a job in the background a shell ignores some.
        array = tiermap.memmap(sys.argv[1], mode="w+", shape=1 << 20)
        array[:] = 7
        os.kill(os.getpid(), int(sys.argv[2]))
        time.sleep(60)
        """, tmp_path / "data", int(number))
    assert ended.code == -number, ended
    assert (tmp_path / "data").read_bytes() == b"\7" * (1 << 20)


@pytest.mark.parametrize("handler", [
    pytest.param("signal.signal(signal.SIGTERM, signal.signal(signal.SIGTERM, tidy_up))", id="for a while"),
    pytest.param("signal.signal(signal.SIGTERM, tidy_up)", id="that ends by the signal"),
    pytest.param("set_handler(signal.SIGTERM, tidy_up)", id="by an earlier name"),
])
def test_a_script_that_has_had_a_handler_of_its_own_keeps_what_it_has_stored(tmp_path, program, handler):
    ended = program(f"""
        import os, signal, sys, time
        from signal import signal as set_handler
        import tiermap

        def tidy_up(number, frame):
            set_handler(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            time.sleep(60)

        array = tiermap.memmap(sys.argv[1], mode="w+", shape=1 << 20)
        {handler}
        array[:] = 7
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        """, tmp_path / "data")
    assert ended.code == -signal.SIGTERM, ended
    assert (tmp_path / "data").read_bytes() == b"\7" * (1 << 20)


def test_what_is_being_given_up_as_a_script_is_told_to_end_is_written(tmp_path, program):
    ended = program("""
        import os, signal, sys, threading, time
        import tiermap

        def work(path):
            while True:
                array = tiermap.memmap(path, mode="r+", dtype="u8")
                array += 1  # Of all, before it is given up.
                del array
                counts.append(1)

        counts = []
        open(sys.argv[1], "wb").write(bytes(1 << 23))
        threading.Thread(target=work, args=(sys.argv[1],), daemon=True).start()
        while len(counts) < 3:
            time.sleep(0.001)
        print(len(counts), flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
        """, tmp_path / "data")
    assert ended.code == -signal.SIGTERM, ended
    numbers = np.fromfile(tmp_path / "data", "u8")
    assert numbers.min() >= 3
    assert numbers.max() - numbers.min() <= 1  # The last round may have been under way.


@pytest.mark.parametrize("call", ["os.execv(program, [program, *rest])", "os.execlp(program, program, *rest)",
                                  "os.execve(program, [program, *rest], dict(os.environ))"])
def test_a_script_that_another_program_takes_the_place_of_keeps_what_it_has_stored(tmp_path, program, call):
    ended = program(f"""
        import os, sys
        import tiermap
        array = tiermap.memmap(sys.argv[1], mode="w+", shape=1 << 20)
        array[:] = 7
        program, rest = sys.executable, ["-c", "print('taken')"]
        {call}
        """, tmp_path / "data")
    assert ended.code == 0 and ended.output.strip() == "taken", ended
    assert (tmp_path / "data").read_bytes() == b"\7" * (1 << 20)


def test_what_is_being_given_up_as_another_program_takes_the_place_is_written(tmp_path, program):
    ended = program("""
        import os, sys, threading, time
        import tiermap
        given_up = [tiermap.memmap(sys.argv[1], mode="w+", shape=64 << 20)]
        given_up[0][:] = 7
        threading.Thread(target=given_up.clear, daemon=True).start()
        while given_up:
            time.sleep(0)
        os.execv(sys.executable, [sys.executable, "-c", "print('taken')"])
        """, tmp_path / "data")
    assert ended.code == 0 and ended.output.strip() == "taken", ended
    assert (tmp_path / "data").read_bytes() == b"\7" * (64 << 20)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("way", ["a thread that goes on", "an executor", "a daemon that gives it up"])
def test_what_threads_of_workers_store_to_the_end_is_written(tmp_path, script, context, way):
    """Workers that were forked end without the interpreter's end, when they have waited for their threads."""
    ended = script("""
        import concurrent.futures, multiprocessing, sys, threading, time
        import tiermap

        def store_late():
            time.sleep(0.3)
            held[0][:] = 7

        def work(path, way):
            global held, executor
            held = [tiermap.memmap(path, mode="w+", shape=32 << 20)]
            if way == "an executor":
                executor = concurrent.futures.ThreadPoolExecutor(1)
                executor.submit(store_late)
            elif way == "a thread that goes on":
                threading.Thread(target=store_late).start()
            else:
                held[0][:] = 7
                threading.Thread(target=held.clear, daemon=True).start()
                while held:
                    time.sleep(0)

        if __name__ == "__main__":
            worker = multiprocessing.get_context(sys.argv[2]).Process(target=work, args=(sys.argv[1], sys.argv[3]))
            worker.start()
            worker.join()
            print(worker.exitcode)
        """, tmp_path / "data", context, way)
    assert ended.code == 0 and ended.output.strip() == "0", ended
    assert (tmp_path / "data").read_bytes() == b"\7" * (32 << 20)


def test_a_script_that_is_told_to_end_while_threads_give_up_arrays_does_so_soon(tmp_path, program):
    """Whichever of them the signal meets is not to be waited for by who writes before the end."""
    for attempt in range(6):
        ended = program("""
            import os, signal, sys, threading, time
            import tiermap

            def work(path):
                while True:
                    array = tiermap.memmap(path, mode="w+", shape=100_000)
                    array[:] = 7
                    del array
                    counts.append(1)

            counts = []
            for number in range(4):
                threading.Thread(target=work, args=(f"{sys.argv[1]}-{number}",), daemon=True).start()
            while len(counts) < 40 + int(sys.argv[2]):
                time.sleep(0.001)
            print(time.time(), flush=True)
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
            """, tmp_path / "data", attempt)
        assert ended.code == -signal.SIGTERM, ended
        assert time.time() - float(ended.output) < 8  # Ten seconds is what a signal waits at most.


def test_a_scripts_own_handler_stays_and_what_it_leaves_to_the_kernel_does(tmp_path, program):
    ended = program("""
        import os, signal, sys
        import tiermap
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
        array = tiermap.memmap(sys.argv[1], mode="w+", shape=1 << 20)
        array[:] = 7
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        array = None
        other = tiermap.memmap(sys.argv[1])  # That is only read.
        os.kill(os.getpid(), signal.SIGTERM)
        """, tmp_path / "data")
    assert ended.code == -signal.SIGTERM, ended
    assert ended.output.strip() == "handled"


def test_workers_that_a_pool_ends_keep_what_they_have_stored(tmp_path, program):
    ended = program("""
        import multiprocessing, sys, time
        import tiermap

        def work(path):
            global array
            array = tiermap.memmap(path, mode="w+", shape=1 << 20)
            array[:] = 7
            return array.filename

        with multiprocessing.get_context("fork").Pool(2) as pool:
            pool.map(work, [sys.argv[1], sys.argv[2]], chunksize=1)
        """, tmp_path / "one", tmp_path / "two")
    assert ended.code == 0, ended
    for name in ("one", "two"):
        assert (tmp_path / name).read_bytes() == b"\7" * (1 << 20)
