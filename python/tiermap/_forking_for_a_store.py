"""Whether the fork() under way is that of a process which is to serve a store, and touches no array."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Iterator

_here = threading.local()  # fork() and its hooks run in one thread.
_starting = threading.RLock()  # A signal handler may map too.


def starting() -> Any:
    """Held while a store's process is started, and by every fork(): a process in between would keep descriptors open
    whose closing somebody waits for."""
    return _starting


def after_fork_in_child() -> None:
    """Another thread may have held the lock when this process was forked."""
    global _starting
    _starting = threading.RLock()


@contextlib.contextmanager
def announced() -> Iterator[None]:
    """A fork inside is of that kind."""
    _here.announced = True
    try:
        yield
    finally:
        _here.announced = False


def is_announced() -> bool:
    return getattr(_here, "announced", False)
