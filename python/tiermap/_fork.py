"""What fork() means for mapped arrays: the child maps them again, at the same addresses, in caches of its own."""

from __future__ import annotations

import os
import sys
import threading
import time
from typing import List

from tiermap import _cache, _core, _endings, _forking_for_a_store, _mapping, _python_store

def say(text: str) -> None:
    """A line on standard error; a process just forked is no place for more."""
    try:
        os.write(2, f"tiermap: {text}\n".encode("utf-8", "replace"))
    except OSError:
        pass


def mappings_here() -> List[_mapping.Mapping]:
    """Those that this process has to write."""
    return [mapping for mapping in _mapping.live_mappings() if mapping.is_here]


def before() -> None:
    """The child reads what the stores have: let that be all that was written here.

    Whether something is dirty is for sync() to say: statistics may be behind the thread that has just written.
    """
    if _forking_for_a_store.is_announced():
        return
    try:
        for mapping in mappings_here():
            try:
                mapping.sync_range(0, mapping.size)
            except Exception as error:
                say(f"{mapping!r} could not be written before fork(), the child sees older data: {error}")
    finally:  # Ctrl-C ends the waiting for a store, and fork() goes on.
        _forking_for_a_store.starting().acquire()


def after_in_parent() -> None:
    if not _forking_for_a_store.is_announced():
        _forking_for_a_store.starting().release()


def after_in_child() -> None:
    """New engines, and every region again where it was."""
    _core.forget_releases()
    _core.forget_channel_stores()
    _forking_for_a_store.after_fork_in_child()
    _cache.after_fork_in_child()
    _mapping.after_fork_in_child()
    # First of all: a new engine's memory could come to lie just there.
    held = [(mapping, mapping.hold_place()) for mapping in _mapping.live_mappings()]
    if _forking_for_a_store.is_announced():
        forget_mappings()
        return
    mappings = []
    for mapping, is_held in held:
        if is_held:
            mappings.append(mapping)
        else:
            say(f"{mapping!r} cannot be used in the forked child: {_mapping.PLACE_TAKEN}")
    if not start_caches():
        return
    for mapping in mappings:
        map_again(mapping)
    write_at_exit_of_workers()


def forget_mappings() -> None:
    """In the process that serves a store: what it maps itself is to be served there, and to be no array of the
    program's."""
    _mapping.forget_all()
    for cache in _cache.live_caches():
        cache.forget_mappings()


def start_caches() -> bool:
    for cache in _cache.live_caches():
        try:
            cache.start_again()
        except Exception as error:
            say(f"no cache in the forked child, arrays of its parent cannot be used in it: {error}")
            return False
    return True


def map_again(mapping: _mapping.Mapping) -> None:
    recipe = mapping.recipe
    if not recipe.reopens:
        why = "its memory is the parent's"
    elif recipe.private_copy:
        why = "its changes are the parent's"
    elif recipe.writes_to_store and not isinstance(recipe.source, str):
        why = "what was written is in the process that serves the parent"
    else:
        try:
            mapping.map_in_child()
            return
        except Exception as error:
            why = str(error)
    say(f"{mapping!r} cannot be used in the forked child ({why}): touching it is a segmentation fault there")


_workers_write = False


def write_at_exit_of_workers() -> None:
    """Workers of multiprocessing end without the interpreter's own exit."""
    global _workers_write
    util = sys.modules.get("multiprocessing.util")
    if util is None or _workers_write:
        return
    _workers_write = True
    util.register_after_fork(_cache, lambda _: begin_worker())
    if util.process.parent_process() is not None:  # It has begun already.
        util.Finalize(None, end_worker, exitpriority=0)


def begin_worker() -> None:
    """A forked child of multiprocessing's, as soon as it knows what it is."""
    # First of all: what is raised in here is said in the log of multiprocessing alone.
    sys.modules["multiprocessing.util"].Finalize(None, end_worker, exitpriority=0)
    for cache in _cache.live_caches():
        try:
            cache.begin_worker()
        except Exception as error:
            say(f"{cache!r} has not the budget of a worker: {error}")


def end_worker() -> None:
    """Threads that are no daemons are waited for after this, and may store until they end."""
    write_with_what_ends()
    if threads_waited_for():
        threading.Thread(target=write_after_threads, name="tiermap-writes", daemon=False).start()
    else:
        _core.leave_mapping_table()


def write_after_threads() -> None:
    """In a thread that is waited for as well."""
    while others := threads_waited_for():
        for thread in others:
            try:
                thread.join()
            except RuntimeError:  # It is being started.
                time.sleep(0.001)
    write_with_what_ends()
    _core.leave_mapping_table()


def threads_waited_for() -> List[threading.Thread]:
    """Those that a process waits for before it ends, but for the first and this one."""
    spared = (threading.main_thread(), threading.current_thread())
    return [thread for thread in threading.enumerate() if not thread.daemon and thread not in spared]


def write_with_what_ends() -> None:
    """What lives, and what other threads are giving up."""
    write_all()
    _endings.wait_for_all()


def write_all() -> List[str]:
    """Writes back whatever is dirty; what went wrong, a line each."""
    complaints = []
    for mapping in mappings_here():
        try:
            mapping.sync_range(0, mapping.size)
        except Exception as error:  # Whatever it is, others are written.
            complaints.append(f"data of {mapping!r} is lost: {_python_store.reason_of(error)}")
            say(complaints[-1])
    return complaints


os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)
write_at_exit_of_workers()  # A worker may be the first that imports this: with the main module, or at its work.
