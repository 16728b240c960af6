"""Mapping: a region, where its bytes come from, and how another process maps them again."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from tiermap import _core, _endings, _finding, _python_store
from tiermap._cache import Cache, members
from tiermap._location import (HeapPlace, check_identity, identity_of, key_of, machine, name_of, path_of, state_of,
                               tells_of_changes)
from tiermap._page_size import LEAST as LEAST_PAGE_SIZE

#: sync() and prefetch() go forward by this much where someone wants to be told.
PIECE = 64 << 20

PLACE_TAKEN = "something else lies where it was"

Progress = Callable[[int, int], object]
Key = Tuple[Any, ...]

_lock = threading.RLock()  # A signal handler may map too.
_live: "weakref.WeakSet[Mapping]" = weakref.WeakSet()
_by_key: "Dict[Key, weakref.WeakSet[Mapping]]" = {}


@dataclass(frozen=True)
class Recipe:
    """All that it takes to map the same bytes again, here or elsewhere."""

    source: Any  # A URL, an absolute path, a heap's place, or a store written in Python.
    key: Key  # What it is the same as: device and inode of a file, a heap's state, else the URL.
    writable: bool
    private_copy: bool
    offset: int
    length: int
    page_size: Optional[int]  # None: what TIERMAP_PAGE_SIZE says.
    read_ahead: Optional[int]
    advice: str
    start: str = "fork"  # How the process of a store written in Python is started.
    reopens: bool = True  # False where the bytes are in this process only.
    identity: str = ""  # Of the files that the source named.

    @property
    def threads(self) -> int:
        """How many calls a store written in Python likes at once."""
        return int(getattr(self.source, "threads", 1))

    @property
    def patience(self) -> float:
        """Seconds that a call of a store written in Python may take when the program ends."""
        return _python_store.patience_of(self.source)

    def open(self) -> _core.Store:
        """The store, opened anew.

        Raises
        ------
        OSError
            ESTALE, if the source names other files by now; and what else opening it raises.
        """
        if isinstance(self.source, HeapPlace):
            return self.source.open().store
        if not isinstance(self.source, str):
            return _python_store.start(self.source, self.writes_to_store, self.page_size or 1 << 20, self.start)
        store = _core.open_store(self.source, "write" if self.writes_to_store else "read")
        check_identity(self.source, self.identity)  # Not before: it may be replaced in between.
        return store

    @property
    def writes_to_store(self) -> bool:
        return self.writable and not self.private_copy

    @property
    def file(self) -> Optional[Tuple[int, int]]:
        """Device and inode of a plain file, which other processes may map too; None of what is none."""
        return (self.key[1], self.key[2]) if self.key[0] == "file" else None


class Mapping(_core.Region):
    """The memory under arrays. Arrays hold it as their ``base``; it ends with the last of them."""

    def __init__(self, cache: Cache, store: _core.Store, recipe: Recipe, among_processes: bool = False) -> None:
        self.state = state_of(recipe.source)  # Of when nothing of it was in memory yet.
        self.state_tells = tells_of_changes(self.state)
        super().__init__(cache.engine, store, writable=recipe.writable, private_copy=recipe.private_copy,
                         offset=recipe.offset, length=recipe.length, page_size=recipe.page_size,
                         read_ahead=recipe.read_ahead, advice=recipe.advice, file=recipe.file,
                         among_processes=among_processes)
        self.cache = cache
        self.recipe = recipe
        self.process = os.getpid()
        self.store: Optional[_core.ChannelStore] = store if isinstance(store, _core.ChannelStore) else None
        with _lock:
            _live.add(self)
            if len(_by_key) > 2 * len(_live):
                for key, known in list(_by_key.items()):
                    if not known:
                        _by_key.pop(key, None)  # A signal handler may have been quicker.
            self.ending = _endings.note(self) if self.writes_to_store else None
            _by_key.setdefault(recipe.key, weakref.WeakSet()).add(self)
            cache.note_mapping(self)

    def __del__(self) -> None:
        ending = getattr(self, "ending", None)
        if ending is not None:
            ending.begins()

    @property
    def writes_to_store(self) -> bool:
        """Whether what is written to it is to reach the store."""
        return self.recipe.writes_to_store

    @property
    def is_here(self) -> bool:
        """False in a forked child that it could not follow: it is its parent's."""
        return self.process == os.getpid()

    @property
    def end(self) -> int:
        """The byte of the store behind its last."""
        return self.recipe.offset + self.size

    def is_of_now(self, source: Any) -> bool:
        """Whether it has nothing in memory of what was otherwise before. The source may be another name of the same."""
        if not self.through_kernel:
            if self.state != state_of(source):
                return False
            if not self.state_tells:
                self.look_anew()
        return True

    def has_state_of_its_own(self, source: Any) -> bool:
        """Whether the state is the source's as well, and what is read from now on is of no other state."""
        if self.state != state_of(source):
            return False
        if not self.state_tells:
            self.look_anew()
        return self.state_tells

    def look_anew(self) -> None:
        """Drops what may have been read before a change that the state does not tell."""
        tells = tells_of_changes(self.state)  # From here on: what is read below is newer.
        if not self.through_kernel:
            self.discard(0, self.size)
        self.state_tells = tells

    def covers(self, offset: int, length: int) -> bool:
        """Whether these bytes of the store are in it."""
        return self.recipe.offset <= offset and offset + length <= self.end

    def overlaps(self, offset: int, length: int) -> bool:
        """Whether some of these bytes of the store are in it."""
        return self.recipe.offset < offset + length and offset < self.end

    def sync_range(self, offset: int, count: int, progress: Optional[Progress] = None, done_before: int = 0,
                   total: Optional[int] = None) -> None:
        """sync(), in pieces where someone wants to be told."""
        if not self.writes_to_store:
            return
        with self.telling_of_store():
            if progress is None:
                self.sync(offset, count)
                return
            for start, piece in pieces(offset, count):
                self.sync(start, piece)
                progress(done_before + start - offset + piece, count if total is None else total)

    def telling_of_store(self) -> _python_store.Telling:
        """In it, an OSError says what a store written in Python raised."""
        return _python_store.Telling(self.store)

    def hold_place(self) -> bool:
        """In a forked child: keeps others out of where it was. False if something else lies there already."""
        return _core.hold_addresses(self.address, held_bytes(self))

    def map_in_child(self) -> None:
        """In a forked child: the same bytes at the same address, which hold_place() kept. Raises what opening and
        mapping raise."""
        if self.writes_to_store and path_of(self.recipe.source) is None:
            raise ValueError("only plain files are written by several processes")
        engine, recipe = self.cache.engine, self.recipe
        store = (recipe.open() if self.store is None
                 else _python_store.attach(self.store, recipe.threads, recipe.patience))
        try:
            self.map_again(engine, store, self.writes_to_store)
        except Exception:
            self.hold_place()  # If it is not held any more.
            raise
        self.store = store if isinstance(store, _core.ChannelStore) else None
        self.process = os.getpid()

    def __reduce__(self) -> Any:
        return (mapping_of, (self.recipe, self.cache, machine()))

    def __repr__(self) -> str:
        kind = "private copy" if self.recipe.private_copy else "writable" if self.recipe.writable else "read-only"
        return (f"<tiermap mapping of {name_of(self.recipe.source)}, {_core.format_size(self.size)}, {kind}, pages of "
                f"{_core.format_size(self.page_size)}>")


def pieces(offset: int, count: int) -> List[Tuple[int, int]]:
    """A range cut into pieces of 64 MiB."""
    return [(start, min(PIECE, offset + count - start)) for start in range(offset, offset + count, PIECE)]


def held_bytes(mapping: Mapping) -> int:
    """The address space of a region in any engine: whole pages of the kernel. map_again() asks for no more."""
    return (mapping.size + 4095) // 4096 * 4096


def find(source: Any, key: Key, offset: int, length: int, writable: bool, cache: Optional[Cache]) -> Optional[Mapping]:
    """A shared mapping of this process that has these bytes.

    Two copies of written bytes would go apart. So a region that is written serves everyone; one that is only read
    serves readers who have not asked for another cache, as long as nothing has changed what it read.
    """
    # Writers first: what a reader from before has may be older.
    for mapping in sorted(shared_mappings(key), key=lambda known: not known.recipe.writable):
        if not mapping.covers(offset, length):
            continue
        if mapping.recipe.writable:
            return mapping
        if not writable and (cache is None or mapping.cache is cache) and mapping.is_of_now(source):
            return mapping
    return None


def shared_mappings(key: Key) -> List[Mapping]:
    """The mappings of these bytes in this process, private copies left out; when those that nobody has are written.

    Raises
    ------
    OSError
        EBUSY, if that would take too long.
    """
    with _lock:  # Taken first: none of these ends while others are waited for.
        known = [mapping for mapping in members(_by_key.get(key, ()))
                 if mapping.is_here and not mapping.recipe.private_copy]
    _endings.wait(key)
    return known


def extent_to_write(recipe: Recipe, size: int) -> Tuple[int, int]:
    """Offset and length of what to map for writing, where find() has found nothing: all of a file of that size.

    Whoever maps more of it later is then served by the same mapping. Where a part is mapped already, from before the
    file grew, it is what was asked for alone; where some of that is in that part, the part becomes the kernel's, and so
    does what is mapped next.

    Raises
    ------
    OSError
        EBUSY, if some of it is mapped for writing and cannot become the kernel's: two copies of a page would undo one
        another's changes.
    """
    asked = (recipe.offset, recipe.length)
    whole = asked if path_of(recipe.source) is None else (0, size)
    others = [other for other in shared_mappings(recipe.key) if other.writes_to_store and not other.through_kernel]
    for extent in (whole, asked):
        if not any(other.overlaps(*extent) for other in others):
            return extent
    for mapped in others:
        if mapped.overlaps(*asked) and not mapped.give_file_to_kernel():
            raise OSError(errno.EBUSY, f"{recipe.source} is mapped for writing from byte {mapped.recipe.offset} to "
                                       f"{mapped.end}, and {asked[0]} to {sum(asked)} is asked for: delete those "
                                       "arrays first, or map all of it at once")
    return whole


def write_for_copy(recipe: Recipe) -> None:
    """Before a private copy is mapped: it begins with what arrays of this process have written.

    Raises
    ------
    OSError
        If that cannot be written.
    """
    first, end = recipe.offset, recipe.offset + recipe.length
    for other in shared_mappings(recipe.key):
        if not other.through_kernel and other.overlaps(first, end - first):
            start = max(first, other.recipe.offset)
            other.sync_range(start - other.recipe.offset, min(end, other.end) - start)


@contextlib.contextmanager
def replacing(source: Any, size: int) -> Iterator[None]:
    """While a store gets new contents of that size: what its live mappings have of the old ones goes unwritten, but for
    those that would not fit the new ones, which become the kernel's.

    Raises
    ------
    OSError
        EBUSY, if one that writes would not fit the new contents, and cannot become the kernel's.
    """
    live = [mapping for mapping in shared_mappings(key_of(source)) if not mapping.through_kernel]
    for mapping in live:
        fits = path_of(source) is not None and mapping.recipe.offset == 0 and mapping.size == size
        if mapping.writes_to_store and not fits and not mapping.give_file_to_kernel():
            raise OSError(errno.EBUSY, f"{source} is mapped for writing from byte {mapping.recipe.offset} to "
                                       f"{mapping.end}, and is to be replaced by {size} bytes: delete those arrays "
                                       "first")
    live = [mapping for mapping in live if not mapping.through_kernel]
    for mapping in live:
        mapping.discard(0, mapping.size)
    yield
    for mapping in live:  # What was fetched meanwhile.
        mapping.discard(0, mapping.size)


def mapping_of(recipe: Recipe, cache: Cache, sender: str) -> Mapping:
    """What a pickle of a mapping becomes: the one of this process, or a new one."""
    if sender == machine():
        check_identity(recipe.source, recipe.identity)
    else:  # It numbers its files differently.
        recipe = replace(recipe, identity=identity_of(recipe.source))
    recipe = replace(recipe, key=key_of(recipe.source))
    with _finding.finding(recipe.source, recipe.writes_to_store) as found:
        known = find(recipe.source, recipe.key, recipe.offset, recipe.length, recipe.writable, cache)
        if known is not None and not recipe.private_copy:
            return known
        found.refuse_within_another()
        if recipe.writes_to_store and path_of(recipe.source) is None:
            recipe = replace(recipe, writable=False)  # Several writers of these could undo one another's work.
        store = recipe.open()
        refuse_shortened(recipe, store)
        if recipe.writes_to_store:
            offset, length = extent_to_write(recipe, recipe.offset + recipe.length)
            recipe = replace(recipe, offset=offset, length=length)
        return mapped_as_sent(cache, store, recipe)


def mapped_as_sent(cache: Cache, store: _core.Store, recipe: Recipe) -> Mapping:
    """In smaller pages where the cache cannot hold some of these: a worker's has a part of the memory that the sender's
    has."""
    failure: Optional[ValueError] = None
    while True:
        try:
            return Mapping(cache, store, recipe, among_processes=recipe.writes_to_store)
        except ValueError as error:
            failure = error if failure is None else failure
            if recipe.page_size is None or recipe.page_size <= LEAST_PAGE_SIZE:
                raise failure from None
            recipe = replace(recipe, page_size=recipe.page_size // 2)


def refuse_shortened(recipe: Recipe, store: _core.Store) -> None:
    """What was sent may have been cut off since: behind the end would be zeros.

    Raises
    ------
    OSError
        ESTALE, if the store does not have all bytes of the recipe.
    """
    end = recipe.offset + recipe.length
    if store.size < end:
        raise OSError(errno.ESTALE, f"{name_of(recipe.source)} has {store.size} bytes, and had {end} at least when an "
                                    "array of it was sent: it was cut off since: map what is left of it")


def live_mappings() -> List[Mapping]:
    """Every region of this process, in a forked child also those that are its parent's."""
    with _lock:
        return members(_live)


def after_fork_in_child() -> None:
    """Another thread may have held the lock when this process was forked."""
    global _lock
    _lock = threading.RLock()
    _finding.after_fork_in_child()
    _endings.after_fork_in_child()


def forget_all() -> None:
    """In the process that serves a store: arrays of the program are not there, and what it maps is its own."""
    global _live, _by_key
    _live, _by_key = weakref.WeakSet(), {}
