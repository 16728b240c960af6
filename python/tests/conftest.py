"""What the tests share: data of which every element is known, and programs run apart with a time limit."""

import contextlib
import faulthandler
import os
import pathlib
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

MIB = 1 << 20
ROOT = pathlib.Path(__file__).resolve().parents[2]
#: heap_writer.cpp, built; None where the tests are run by hand and it is not named.
HEAP_WRITER = os.environ.get("TIERMAP_HEAP_WRITER")
#: The `tiermap` program that goes with this package; the tests of the wheel are run beside a build.
PROGRAM = os.environ.get("TIERMAP_PROGRAM", "tiermap")


@pytest.fixture(autouse=True)
def watchdog():
    """Whoever holds the interpreter's lock for ever is ended by a thread that does not need it."""
    faulthandler.dump_traceback_later(150, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def known(count, dtype=np.int64, start=0):
    """Numbers of which each tells where it stands."""
    return (np.arange(start, start + count, dtype=np.int64) * 2654435761 % (1 << 31)).astype(dtype)


@pytest.fixture
def zeros(tmp_path):
    """Makes a file of zeros."""
    def make(size, name="zeros.bin"):
        np.zeros(size, np.uint8).tofile(tmp_path / name)
        return tmp_path / name

    return make


@pytest.fixture
def numbers(tmp_path):
    """A raw file of 4 MiB of int64, and what it holds."""
    path = tmp_path / "numbers.bin"
    values = known(MIB // 2)
    values.tofile(path)
    return path, values


@pytest.fixture
def rows(tmp_path):
    """A .npy file of 4096 rows of 300 float32, and what it holds."""
    path = tmp_path / "rows.npy"
    values = known(4096 * 300, np.float32).reshape(4096, 300)
    np.save(path, values)
    return path, values


@pytest.fixture
def coarse_path(tmp_path):
    """A directory on a file system with time stamps of whole seconds."""
    image, mounted = tmp_path / "image", tmp_path / "mounted"
    mounted.mkdir()
    with open(image, "wb") as file:
        file.truncate(16 * MIB)
    for command in (["mke2fs", "-q", "-t", "ext2", "-I", "128", image], ["mount", "-o", "loop", image, mounted]):
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"an image of ext2 cannot be mounted here: {error}")
    yield mounted
    subprocess.run(["umount", "--lazy", mounted], check=True, timeout=60)


def write_heap(mode, path):
    """Runs the program that writes heaps; its exit status."""
    return subprocess.run([HEAP_WRITER, mode, str(path)], check=False, timeout=100).returncode


class Ended:
    """A program that has ended."""

    def __init__(self, code, output, errors):
        self.code = code
        self.output = output
        self.errors = errors

    def __repr__(self):
        return f"exit status {self.code}\n{self.output}\n{self.errors}"


def run_to_its_end(command, timeout, environment, folder=None):
    """Runs a command; one that does not end in time is killed with all that it started, and fails the test."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                          cwd=folder, env={**os.environ, **environment}) as process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return Ended(process.returncode, output, errors)


def run_program(text, *arguments, timeout=100, folder=None, **environment):
    """Runs a Python program of its own; one that does not end in time fails the test."""
    source = textwrap.dedent(text)
    # From 3.12 on Python warns of threads at each fork(), and some tests want nothing to be said.
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning", "-c", source,
               *map(str, arguments)]
    return run_to_its_end(command, timeout, environment, folder)


def open_first_beside_forks(url):
    """How forked children end that open a store of a kind while their parent's thread opens its first: each in a process
    of its own, at another moment."""
    return [run_program("""
        import os, signal, sys, threading, time
        import tiermap
        def open_store():
            tiermap._core.open_store(sys.argv[1], "read")
        thread = threading.Thread(target=open_store)
        thread.start()
        time.sleep(float(sys.argv[2]))
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            open_store()
            os._exit(0)
        thread.join()
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """, url, milliseconds / 1000).code for milliseconds in range(0, 16, 2)]


@pytest.fixture
def program():
    return run_program


@pytest.fixture
def script(tmp_path):
    """Runs a program that lies in a file, as multiprocessing's spawn needs it."""

    def run(text, *arguments, timeout=100, **environment):
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(text))
        return run_to_its_end([sys.executable, str(path), *map(str, arguments)], timeout, environment)

    return run


@pytest.fixture
def server():
    """The address of a memory server."""
    with serving() as address:
        yield address


@pytest.fixture
def other_server():
    with serving() as address:
        yield address


@contextlib.contextmanager
def serving():
    try:
        started = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--memory", "64MiB"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError:
        pytest.skip(f"no {PROGRAM} program to serve: name one in TIERMAP_PROGRAM")
    said = started.stdout.readline()
    if not said.startswith("listening on "):
        pytest.skip("this Tiermap serves nothing: " + started.stderr.read().strip())
    yield said.split()[2].rstrip(",")
    started.terminate()
    assert started.wait(timeout=60) == 0
    started.stdout.close()
    started.stderr.close()
