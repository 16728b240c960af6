"""One thread at a time looks for a mapping and makes what it does not find: two that write one file would go apart."""

from __future__ import annotations

import contextlib
import errno
import threading
from typing import Any, Iterator, List

from tiermap import _endings
from tiermap._location import key_of, name_of

#: How long somebody waits for the lock whom its holder may be waiting for.
MOST_SECONDS_WITHIN_AN_ENDING = 5

_lock = threading.RLock()  # A signal handler may map too.
_under_way: "List[Finding]" = []  # Those of the thread that has the lock, the outermost first.


class Finding:
    """A call of map() from its look for a mapping until there is one."""

    def __init__(self, source: Any, writes: bool) -> None:
        self.source = source
        self.writes = writes
        self.thread = threading.get_ident()

    def refuse_within_another(self) -> None:
        """Called where nothing was found, and before anything is made.

        Raises
        ------
        OSError
            EBUSY, if this thread is mapping the same file already, further out, and one of the two writes.
        """
        outer = _under_way[:_under_way.index(self)]
        key = key_of(self.source) if outer else None
        if any((self.writes or other.writes) and key_of(other.source) == key for other in outer):
            raise OSError(errno.EBUSY, f"{name_of(self.source)} cannot be mapped inside of a signal handler, callback "
                                       "or __del__ that has interrupted map() of the same file: map it after that, or "
                                       "before, and keep the array")


@contextlib.contextmanager
def finding(source: Any, writes: bool) -> Iterator[Finding]:
    """To be entered from the look for a mapping until its caller has made what it did not find.

    Raises
    ------
    OSError
        EBUSY, where that would wait for itself.
    """
    if _endings.under_way_here() and not comes_free():
        raise OSError(errno.EBUSY, f"{name_of(source)} cannot be mapped inside of a signal handler, callback or "
                                   "__del__ that has interrupted the end of an array which another thread waits for: "
                                   "map it after that")
    with _lock:
        mine = Finding(source, writes)
        _under_way.append(mine)
        try:
            yield mine
        finally:
            _under_way.remove(mine)


def comes_free() -> bool:
    """Whether the lock is to be had: its holder may be waiting for an end that this thread has interrupted."""
    if not _lock.acquire(timeout=MOST_SECONDS_WITHIN_AN_ENDING):
        return False
    _lock.release()
    return True


def after_fork_in_child() -> None:
    """Another thread may have held the lock when this process was forked."""
    global _lock
    _lock = threading.RLock()
    _under_way[:] = [other for other in _under_way if other.thread == threading.get_ident()]
