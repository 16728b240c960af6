"""Whether the fork() under way is that of a process which is to serve a store, and touches no array."""

from __future__ import annotations

import contextlib
import threading
from typing import Iterator

_here = threading.local()  # fork() and its hooks run in one thread.


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
