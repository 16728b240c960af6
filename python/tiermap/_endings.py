"""Mappings that write and that nobody has any more: they are written back, and who maps the file again waits for that.

The interpreter's lock is not held meanwhile. The interpreter may also run code of others in the thread that ends a
mapping, signal handlers and callbacks, after it has forgotten the mapping and before it is written.
"""

from __future__ import annotations

import errno
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Tuple

from tiermap import _core
from tiermap._location import name_of

if TYPE_CHECKING:
    from tiermap._mapping import Mapping

MOST_SECONDS = 600
#: A collection of garbage forgets a mapping a little before its end begins. Longer than this it waits for its waiter.
MOST_SECONDS_TO_BEGIN = 5


class Ending:
    """Of one mapping that writes; its end is still to come for as long as there is a reference to it."""

    def __init__(self, mapping: Mapping) -> None:
        self.key = mapping.recipe.key
        self.name = name_of(mapping.recipe.source)
        self.thread: Optional[int] = None  # The one in which it began.
        self.reference = weakref.ref(mapping)
        self.left = _core.RegionCount()
        mapping.count_in(self.left)

    # The function is held: modules lose their names at the interpreter's end, before the last mapping goes.
    def begins(self, this_thread: Callable[[], int] = threading.get_ident) -> None:
        self.thread = this_thread()

    @property
    def over(self) -> bool:
        return self.left.value == 0

    @property
    def under_way(self) -> bool:
        return self.reference() is None and not self.over


_known: List[Ending] = []  # Changed in single steps only: a signal handler may map too.


def note(mapping: Mapping) -> Ending:
    """Of a new mapping that writes."""
    for ending in [ending for ending in list(_known) if ending.over]:
        try:
            _known.remove(ending)
        except ValueError:  # Another thread was quicker.
            pass
    made = Ending(mapping)
    _known.append(made)
    return made


def under_way_here() -> bool:
    """Whether what runs now has interrupted the end of a mapping."""
    here = threading.get_ident()
    return any(ending.thread == here and ending.under_way for ending in list(_known))


def wait(key: Tuple[Any, ...]) -> None:
    """Until what nobody has any more is written: whoever maps it again is to see that, and not to undo it.

    Raises
    ------
    OSError
        EBUSY, if that takes ten minutes, or cannot go on before the caller has.
    """
    began = time.monotonic()
    while True:
        pending = [ending for ending in list(_known) if ending.key == key and ending.under_way]
        if not pending:
            return
        waited = time.monotonic() - began
        here = threading.get_ident()
        if any(ending.thread == here for ending in pending) or (
                waited > MOST_SECONDS_TO_BEGIN and any(ending.thread is None for ending in pending)):
            raise OSError(errno.EBUSY, f"{pending[0].name} cannot be mapped inside of a signal handler, callback or "
                                       "__del__ that has interrupted the end of an array of it: map it after that")
        if waited > MOST_SECONDS:
            raise OSError(errno.EBUSY, f"{pending[0].name} is still being written for an array that was given up: "
                                       "try again")
        time.sleep(0.001)


def wait_for_all() -> None:
    """Until those are written that other threads have given up by now; ten minutes at most."""
    began, here = time.monotonic(), threading.get_ident()
    pending = list(_known)
    while True:
        waited = time.monotonic() - began
        pending = [ending for ending in pending if ending.under_way and ending.thread != here and
                   waited < (MOST_SECONDS_TO_BEGIN if ending.thread is None else MOST_SECONDS)]
        if not pending:
            return
        time.sleep(0.001)


def after_fork_in_child() -> None:
    """The threads that were ending some are not here."""
    _known[:] = [ending for ending in _known if not ending.under_way]
