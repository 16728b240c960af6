"""Workers of multiprocessing, joblib and the like: several processes, which share the memory that there is."""

from __future__ import annotations

import os
import sys

from tiermap._page_size import MIB

#: What a worker's cache has at least, if nobody says otherwise.
LEAST_BUDGET = 16 * MIB


def is_worker() -> bool:
    """Whether this process is one of several that a program has started for its work."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    # One that was started by "spawn" imports the main module before it is told of its parent.
    return process.parent_process() is not None or getattr(process.current_process(), "_inheriting", False)


def share_of(budget: int) -> int:
    """Of a budget that a process alone would have: as many workers as there are processors take half of it."""
    return min(budget, max(budget // (2 * len(os.sched_getaffinity(0))), LEAST_BUDGET))
