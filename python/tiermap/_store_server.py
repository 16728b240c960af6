"""The process that serves a store written in Python: it has an interpreter, and a lock of the interpreter, of its own.

The other end is ``ChannelStore`` in ``python/source/channel_store.cpp``.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
from typing import Any, Dict, List, NoReturn, Optional, Sequence, Tuple

REQUEST = struct.Struct("=IIQQ")
REPLY = struct.Struct("=qII")
CHANNELS = struct.Struct("=Q")  # Bytes of a slot; the memory and the sockets come along as descriptors.
MOST_DESCRIPTORS = 65
MOST_BYTES = (1 << 63) - 1  # Of any store: what a file offset can say.
#: Seconds that a call may go on for once nobody waits for it any more, unless the store says otherwise.
PATIENCE = 10.0
#: Of what the process reports once the store is open: processes that open() has started may keep the pipe's end.
END_OF_REPORT = b"\0"
#: By ``control``: the program has said itself what it has given up.
GIVEN_UP = b"\0"
READ, WRITE, FLUSH = 1, 2, 3
VERBS = {READ: "read", WRITE: "write", FLUSH: "flush"}


def answer(store: Any, kind: int, count: int, offset: int, slot: memoryview, zeros: memoryview) -> int:
    """Does what was asked for; the bytes done."""
    if kind == READ:
        # A store that fills less than it says must not show what was read before.
        slot[:count] = zeros[:count]
        done = store.read_into(offset, slot[:count])
    elif kind == WRITE:
        done = store.write_from(offset, slot[:count].toreadonly())
    else:
        flush = getattr(store, "flush", None)
        if flush is not None:
            flush()
        return 0
    name = "read_into" if kind == READ else "write_from"
    if isinstance(done, bool) or not hasattr(done, "__index__") and done is not None:
        raise TypeError(f"{name} returned {repr(done)[:100]}, which is no number of bytes: return what was done, or "
                        "None")
    done = count if done is None else done.__index__()
    if not 0 <= done <= count:
        raise ValueError(f"{name} returned {done}, and was asked for {count} bytes: return what was done, or None")
    return done


def describe(store: Any, kind: int, count: int, offset: int) -> str:
    """The failure that is being handled, for people."""
    what = {READ: f"read {count} bytes at {offset}", WRITE: f"write {count} bytes at {offset}", FLUSH: "flush"}[kind]
    return f"tiermap: store {type(store).__name__} failed to {what}:\n{traceback.format_exc()}"


class Failures:
    """What the store has raised: the first of each kind is printed, the others are counted."""

    def __init__(self, store: Any) -> None:
        self.name = type(store).__name__
        self.counts: Dict[Tuple[Any, ...], int] = {}
        self.lock = threading.Lock()

    def note(self, kind: int, error: BaseException, said: str) -> None:
        """``kind`` is what was asked for; alike are failures of one kind, raised as one type in one line."""
        frames = traceback.extract_tb(error.__traceback__)
        place = (frames[-1].filename, frames[-1].lineno) if frames else ()
        alike = (kind, type(error).__name__, *place)
        with self.lock:
            self.counts[alike] = count = self.counts.get(alike, 0) + 1
        if count == 1:
            say(said)

    def tell_of_the_rest(self) -> None:
        """What was counted and not printed, at the end: a line for each kind."""
        for (kind, name, *place), count in self.counts.items():
            if count > 1:
                where = f" ({place[0]}:{place[1]})" if place else ""
                often = "once" if count == 2 else f"{count - 1} times"
                say(f"tiermap: store {self.name} failed to {VERBS[kind]} {often} more with {name}{where}\n")


def say(text: str) -> None:
    """On standard error, where there is one that can be written to."""
    if sys.stderr is not None:
        with contextlib.suppress(Exception):
            print(text, file=sys.stderr, end="", flush=True)


class Served:
    """A channel, the thread that answers it, and what that is at."""

    def __init__(self, store: Any, channel: socket.socket, slot: memoryview, zeros: memoryview,
                 failures: Failures) -> None:
        self.channel = channel
        self.slot = slot
        self.call: Optional[Tuple[int, int, int, float]] = None  # What, bytes, offset, and when it began.
        self.thread = threading.Thread(target=self.serve, daemon=True, args=(store, zeros, failures))
        self.thread.start()

    def serve(self, store: Any, zeros: memoryview, failures: Failures) -> None:
        """answer_all(), and whatever may end that, who waits at the other end is told."""
        try:
            self.answer_all(store, zeros, failures)
        finally:
            with contextlib.suppress(OSError):
                self.channel.shutdown(socket.SHUT_RDWR)

    def answer_all(self, store: Any, zeros: memoryview, failures: Failures) -> None:
        """Answers one request after the other until the other end is closed."""
        slot = self.slot
        while True:
            try:
                message = self.channel.recv(REQUEST.size)
            except OSError:
                return
            if len(message) != REQUEST.size:
                return
            kind, count, offset, number = REQUEST.unpack(message)
            text = b""
            self.call = (kind, count, offset, time.monotonic())
            try:
                result = answer(store, kind, count, offset, slot, zeros)
            except BaseException as error:  # Whatever it is, the thread that waits must be told.
                said = describe(store, kind, count, offset)
                failures.note(kind, error, said)
                known = isinstance(error, OSError) and error.errno is not None and 0 < error.errno < 4096
                result = -(error.errno if known else errno.EIO)  # type: ignore[attr-defined]
                text = said.encode("utf-8", "replace")[:len(slot)]
                slot[:len(text)] = text
            self.call = None
            try:
                self.channel.send(REPLY.pack(result, len(text), number & 0xFFFFFFFF))
            except OSError:
                return

    def stuck_with(self, patience: float) -> Optional[Tuple[int, str]]:
        """The call that nobody waits for any more, if it has taken longer than it may."""
        call = self.call
        if call is None or time.monotonic() - call[3] < patience or not self.is_hung_up():
            return None
        return call[0], f"{VERBS[call[0]]} {call[1]} bytes at {call[2]}"

    def is_hung_up(self) -> bool:
        """Whether the other end is closed."""
        poll = select.poll()
        poll.register(self.channel, 0)
        return any(events & select.POLLHUP for _, events in poll.poll(0))


def start_threads(store: Any, channels: List[socket.socket], memory: int, slot_bytes: int,
                  failures: Failures) -> List[Served]:
    """A thread for each channel. They end when the other ends do."""
    try:
        slots = memoryview(mmap.mmap(memory, len(channels) * slot_bytes))
    finally:
        os.close(memory)
    zeros = memoryview(bytes(slot_bytes))
    return [Served(store, channel, slots[index * slot_bytes:(index + 1) * slot_bytes], zeros, failures)
            for index, channel in enumerate(channels)]


def start_for_child(store: Any, descriptors: List[int], slot_bytes: int, failures: Failures) -> List[Served]:
    """Threads for the channels of a forked child; none where there is no room for more of them, as it is told then."""
    channels = [socket.socket(fileno=descriptor) for descriptor in descriptors[1:]]
    try:
        return start_threads(store, channels, descriptors[0], slot_bytes, failures) if descriptors else []
    except (OSError, RuntimeError, ValueError):
        for channel in channels:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)
        return []


def still_served(served: List[Served]) -> List[Served]:
    """Those whose children have not ended; of the others nothing is kept."""
    alive = []
    for channel in served:
        if channel.thread.is_alive():
            alive.append(channel)
        else:
            channel.channel.close()
    return alive


def serve(store: Any, channels: List[socket.socket], memory: int, slot_bytes: int, control: socket.socket) -> None:
    """Serves every channel until all are closed, and those that forked children of the program bring by ``control``."""
    failures = Failures(store)
    served = start_threads(store, channels, memory, slot_bytes, failures)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, CHANNELS.size, MOST_DESCRIPTORS)
        if len(message) != CHANNELS.size:
            break
        served = still_served(served)
        served += start_for_child(store, descriptors, CHANNELS.unpack(message)[0], failures)
    stuck = await_all(served, getattr(store, "patience", PATIENCE))
    failures.tell_of_the_rest()
    if stuck:
        unwritten = [said for kind, said in stuck if kind != READ]
        if unwritten and message != GIVEN_UP:
            say(f"tiermap: store {failures.name} was to {unwritten[0]}, and has not returned though the program has "
                "ended: so does the store's process, and that is not done\n")
        return
    close = getattr(store, "close", None)
    if close is not None:
        close()


def await_all(served: List[Served], patience: float) -> List[Tuple[int, str]]:
    """Until all channels are closed, and all calls have returned, or are stuck: those, by kind and in words."""
    while True:
        at_work = [channel for channel in served if channel.thread.is_alive()]
        stuck = [said for said in (channel.stuck_with(patience) for channel in at_work) if said is not None]
        if len(stuck) == len(at_work):
            return stuck
        at_work[0].thread.join(min(patience / 4, 0.25))


def open_and_describe(store: Any) -> Tuple[bool, bytes]:
    """Calls the store's open(), and says whether that went well: then its size, else the traceback."""
    try:
        opening = getattr(store, "open", None)
        if opening is not None:
            opening()
        size = store.size() if callable(store.size) else store.size
        if not hasattr(size, "__index__"):
            raise TypeError(f"size is {size!r}: give a whole number of bytes")
        size = size.__index__()
        if not 0 <= size <= MOST_BYTES:
            raise ValueError(f"size is {size}: it can be 0 to {MOST_BYTES} bytes")
        return True, str(size).encode()
    except BaseException as error:
        return False, account_of(error)


def account_of(error: BaseException) -> bytes:
    """A line that says what went wrong, and behind it the traceback."""
    line = f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
    return (line + "\n" + "".join(traceback.format_exception(type(error), error, error.__traceback__))).encode(
        "utf-8", "replace")


def report_of(good: bool, said: bytes) -> bytes:
    """What the process tells, once: whether the store is open, and its size or an account of the error."""
    return (b"+" if good else b"-") + said[:4000].replace(END_OF_REPORT, b"?") + END_OF_REPORT


def leave_signals_to_program() -> None:
    """Those that terminals, ``timeout``, job schedulers and service managers send to all processes of a program: what it
    does then may want the store, and this process ends when the program does."""
    signal.set_wakeup_fd(-1)  # The program's, where it was forked.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, pass_over)
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, pass_over)
    os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def close_all(ends: Sequence[Any]) -> None:
    """Files and sockets, of which some may be closed already."""
    for end in ends:
        end.close()


def pass_over(*_: object) -> None:
    """A handler, and not SIG_IGN: programs that the store starts would inherit that."""


def run(store: Any, channels: List[socket.socket], memory: int, slot_bytes: int, report: int,
        control: socket.socket) -> NoReturn:
    """All that the process does, from its first moment to its end."""
    status = 1
    try:
        leave_signals_to_program()
        told = os.fdopen(report, "wb", buffering=0)
        # Who waits at their other ends is to see when this process ends, whatever open() has started.
        os.register_at_fork(after_in_child=lambda: close_all([told, control, *channels]))
        good, said = open_and_describe(store)
        told.write(report_of(good, said))
        told.close()
        if good:
            try:
                serve(store, channels, memory, slot_bytes, control)
                status = 0
            finally:
                write_what_it_mapped()
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stderr.flush()
        finally:
            os._exit(status)


def write_what_it_mapped() -> None:
    """What the store has written to arrays of its own; it ends without the interpreter's own exit."""
    from tiermap import _core, _fork

    _core.lose_patience()
    _fork.write_all()


def main() -> None:
    """A process that was not forked. Its arguments are numbers: report, memory, bytes of a slot, control, channels."""
    import multiprocessing.process
    import multiprocessing.spawn

    # A main module that starts processes wherever it is imported is told so, as in multiprocessing's own.
    this: Any = multiprocessing.process.current_process()
    report, memory, slot_bytes, control, *channels = (int(argument) for argument in sys.argv[1:])
    with os.fdopen(0, "rb", closefd=False) as pipe:
        this._inheriting = True
        try:
            multiprocessing.spawn.prepare(pickle.load(pipe))
            store = pickle.load(pipe)
        except BaseException as error:
            os.write(report, report_of(False, account_of(error)))
            raise
        finally:
            del this._inheriting
    run(store, [socket.socket(fileno=channel) for channel in channels], memory, slot_bytes, report,
        socket.socket(fileno=control))


if __name__ == "__main__":
    main()
