"""Workers of multiprocessing, joblib and the like, and ranks: several processes, which share the memory that there is."""

from __future__ import annotations

import os
import re
import sys

from tiermap._page_size import MIB

#: What a worker's cache has at least, if nobody says otherwise: eight of the largest pages that are chosen by
#: themselves, and the account of them.
LEAST_BUDGET = 17 * MIB
#: Where launchers say how many processes they have started on this node: Open MPI, MPICH and its kin, MVAPICH, srun.
RANKS_HERE = ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE", "SLURM_STEP_TASKS_PER_NODE")


def is_worker() -> bool:
    """Whether this process is one of several that a program has started for its work."""
    process = sys.modules.get("multiprocessing.process")
    if process is None:
        return False
    # One that was started by "spawn" imports the main module before it is told of its parent.
    return process.parent_process() is not None or getattr(process.current_process(), "_inheriting", False)


def ranks_here() -> int:
    """How many processes a launcher has started on this node, this one among them; 1 if none has."""
    for name in RANKS_HERE:
        counts = re.findall(r"(?:^|,)([0-9]{1,6})", os.environ.get(name, ""))  # Slurm's are of all nodes: "4(x2),3".
        if counts:
            return max(1, *map(int, counts))
    return 1


def share_of(budget: int) -> int:
    """Of a budget that a process alone would have: each rank has as much, and as many workers as there are processors
    take half of it."""
    parts = ranks_here() * (2 * len(os.sched_getaffinity(0)) if is_worker() else 1)
    return min(budget, max(budget // parts, LEAST_BUDGET))
