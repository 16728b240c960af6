"""Stores written in Python.

The thread that touches a page which is not there may hold the interpreter's lock, and waits until the page has come. So
no code that wants that lock may be on the page's way: a store written in Python is served by a process of its own.
"""

from __future__ import annotations

import contextlib
import errno
import numbers
import os
import pickle
import signal
import socket
import subprocess
import sys
import warnings
from typing import Any, List, Optional, Protocol, Tuple

from tiermap import _core, _forking_for_a_store, _store_server

#: Seconds; a year. Longer than any program's end.
MOST_PATIENCE = 31_536_000
MOST_SLOT_BYTES = 4 << 20
LEAST_SLOT_BYTES = 64 << 10


class Store(Protocol):
    """What a store written in Python looks like. Deriving from this class is not needed.

    The object is copied into a process of its own when it is mapped: what it changes in itself afterwards, the program
    does not see.

    Attributes
    ----------
    size : int
        In bytes; may be a property or a method.

    Notes
    -----
    Optional members: ``write_from(offset, buffer)``, without which it is read-only; ``flush()``, which makes durable
    what was written; ``open()`` and ``close()``, called once each in the process that serves it; ``threads``, how many
    calls it likes at once (1); ``patience``, the seconds that a call may take when the program ends (10).
    """

    size: int

    def read_into(self, offset: int, buffer: memoryview) -> Optional[int]:
        """Fills ``buffer`` with the bytes from ``offset``, none of them behind ``size``; returns how many, or None for
        all."""


class StoreFailure(Exception):
    """What a store written in Python raised, as text: the ``__cause__`` of the OSError."""


def reason_of(error: BaseException) -> str:
    """What a line has room for: what is known of a store that was given up, else the error."""
    known = str(error.__cause__).strip() if isinstance(error.__cause__, StoreFailure) else ""
    return known if known and "\n" not in known else str(error)


class Telling:
    """While it is entered, an OSError gets what the store raised as its cause."""

    def __init__(self, store: Optional[_core.ChannelStore]) -> None:
        self._store = store
        self._before = ""

    def __enter__(self) -> None:
        self._before = "" if self._store is None else self._store.last_error

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._store is not None and isinstance(error, OSError) and error.__cause__ is None:
            said = self._store.last_error
            # That a budget is too small has nothing to do with what the store raised some time before.
            if said and (said != self._before or error.errno != errno.ENOMEM):
                error.__cause__ = StoreFailure("\n" + said)


def start(store: Any, writable: bool, page_size: int, how: str) -> _core.ChannelStore:
    """Starts the process of a store and gives the end that is here.

    Raises
    ------
    ValueError
        If the store cannot be what it was asked to be.
    TypeError
        If one of its members is not what it has to be.
    OSError
        If its process does not start, or the store's own open() or size fail.
    """
    name = type(store).__name__
    if writable and not hasattr(store, "write_from"):
        raise ValueError(f"{name} has no write_from(offset, buffer): map it with mode='r', or 'c' for a private copy")
    if how not in ("fork", "spawn"):
        raise ValueError(f"start {how!r} is unknown: choose fork or spawn")
    for member in ("read_into", "write_from"):
        if hasattr(store, member) and not callable(getattr(store, member)):
            raise TypeError(f"{name}.{member} is {getattr(store, member)!r}: make it a method")
    threads = getattr(store, "threads", 1)
    if not hasattr(threads, "__index__"):
        raise TypeError(f"{name}.threads is {threads!r}: choose 1 to 64")
    if not 1 <= threads <= 64:
        raise ValueError(f"{name}.threads is {threads}: choose 1 to 64")
    patience = patience_of(store)
    with _forking_for_a_store.starting():
        ends, control, process, report = launch(store, threads, page_size, how)
    try:
        size = size_reported(name, report)
    except BaseException:
        ends.close_ours()
        control.close()
        # A program that ignores SIGCHLD, or whose handler takes every child, has no such process any more.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(process, signal.SIGKILL)  # Nobody waits for what it does in open().
            os.waitpid(process, 0)
        raise
    finally:
        os.close(report)
    return ends.store(control.detach(), process, size, writable, name, patience)


def patience_of(store: Any) -> float:
    """Seconds that a call of a store may take when the program ends.

    Raises
    ------
    TypeError
        If it is no number.
    ValueError
        If it is no time to wait.
    """
    patience = getattr(store, "patience", _store_server.PATIENCE)
    what = f"{type(store).__name__}.patience is {patience!r}: give seconds, more than 0 and at most {MOST_PATIENCE}"
    is_number = isinstance(patience, numbers.Real) and not isinstance(patience, bool)
    if not is_number:
        raise TypeError(what)
    if not 0 < patience <= MOST_PATIENCE:
        raise ValueError(what)
    return float(patience)


def launch(store: Any, threads: int, page_size: int, how: str) -> Tuple[Ends, socket.socket, int, int]:
    """The process of a store: the ends of channels that are here, its number, and a pipe that it reports to."""
    ends = Ends(threads, min(max(page_size, LEAST_SLOT_BYTES), MOST_SLOT_BYTES))
    ours, theirs = pair()
    report, told = os.pipe()
    try:
        begin = fork if how == "fork" else spawn
        process = begin(store, ends, ours, theirs, report, told)
    except BaseException:
        os.close(report)
        ends.close_ours()
        ours.close()
        raise
    finally:
        _store_server.close_all([*ends.theirs, theirs])
        os.close(told)
    return ends, ours, process, report


def attach(parents: _core.ChannelStore, threads: int, patience: float) -> _core.ChannelStore:
    """In a forked child: channels of its own to the process that serves its parent's store.

    fork() again, as start() does, must not be: this runs inside a fork(), when locks of other modules are held.
    """
    ends = Ends(threads, LEAST_SLOT_BYTES)
    control = os.dup(parents.control)
    try:
        with socket.socket(fileno=os.dup(control)) as asking:
            socket.send_fds(asking, [_store_server.CHANNELS.pack(ends.slot_bytes)],
                            [ends.memory, *(end.fileno() for end in ends.theirs)])
    except BaseException:
        os.close(control)
        ends.close_ours()
        raise
    finally:
        _store_server.close_all(ends.theirs)
    return ends.store(control, 0, parents.size, parents.writable, parents.name, patience)


def pair() -> Tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Ends:
    """Both ends of some channels, and the memory that goes with them."""

    def __init__(self, threads: int, slot_bytes: int) -> None:
        self.slot_bytes = slot_bytes
        self.memory = os.memfd_create("tiermap-store")
        os.ftruncate(self.memory, threads * slot_bytes)
        pairs = [pair() for _ in range(threads)]
        self.ours = [ends[0] for ends in pairs]
        self.theirs = [ends[1] for ends in pairs]

    def close_ours(self) -> None:
        _store_server.close_all(self.ours)
        os.close(self.memory)

    def store(self, control: int, process: int, size: int, writable: bool, name: str,
              patience: float) -> _core.ChannelStore:
        return _core.ChannelStore(sockets=[end.detach() for end in self.ours], memory=self.memory,
                                  slot_bytes=self.slot_bytes, control=control, process=process, size=size,
                                  writable=writable, name=name, patience=patience)


def size_reported(name: str, report: int) -> int:
    """Waits until the process has said that the store is open."""
    said = b""
    while not said.endswith(_store_server.END_OF_REPORT):
        piece = os.read(report, 4096)
        if not piece:  # It has ended.
            break
        said += piece
    said = said.rstrip(_store_server.END_OF_REPORT)
    if said[:1] == b"+":
        return int(said[1:])
    line, _, trace = (said[1:].decode("utf-8", "replace") or "the process ended before it said why").partition("\n")
    raise OSError(f"store {name} could not be opened in its process: {line}") from StoreFailure("\n" + (trace or line))


def fork(store: Any, ends: Ends, ours: socket.socket, theirs: socket.socket, report: int, told: int) -> int:
    """The process as a copy of this one: the store may be anything."""
    with warnings.catch_warnings():
        # From 3.12 on Python warns where threads run. The child calls nothing of theirs.
        warnings.simplefilter("ignore", DeprecationWarning)
        with _forking_for_a_store.announced():
            process = os.fork()
    if process == 0:
        try:
            _store_server.close_all([*ends.ours, ours])
            os.close(report)
        finally:
            _store_server.run(store, ends.theirs, ends.memory, ends.slot_bytes, told, theirs)
    return process


def spawn(store: Any, ends: Ends, ours: socket.socket, theirs: socket.socket, report: int, told: int) -> int:
    """The process as a new interpreter: the store is pickled to it."""
    import multiprocessing.spawn

    preparation = multiprocessing.spawn.get_preparation_data("tiermap store")
    del preparation["authkey"]  # For children that talk to their parent by multiprocessing's own means.
    payload = pickle.dumps(preparation) + pickle.dumps(store)
    channels = [theirs.fileno(), *(end.fileno() for end in ends.theirs)]
    arguments = [str(told), str(ends.memory), str(ends.slot_bytes), *(str(channel) for channel in channels)]
    process = subprocess.Popen([sys.executable, "-c", "from tiermap._store_server import main; main()", *arguments],
                               pass_fds=(told, ends.memory, *channels), stdin=subprocess.PIPE)
    assert process.stdin is not None
    try:
        process.stdin.write(payload)
        process.stdin.close()
    except BrokenPipeError:  # It has said why.
        pass
    process.returncode = 0  # ChannelStore reaps it.
    return process.pid
