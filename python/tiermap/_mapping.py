"""Mapping: a region, where its bytes come from, and how another process maps them again."""

from __future__ import annotations

import contextlib
import errno
import threading
import time
import weakref
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from tiermap import _core, _python_store
from tiermap._cache import Cache
from tiermap._location import HeapPlace, key_of, name_of, path_of

#: sync() and prefetch() go forward by this much where someone wants to be told.
PIECE = 64 << 20

PLACE_TAKEN = "something else lies where it was"

Progress = Callable[[int, int], object]
Key = Tuple[Any, ...]

_lock = threading.RLock()  # A signal handler may map too.
_finding = threading.RLock()  # From looking for a mapping until there is one: two for one file would go apart.
_live: "weakref.WeakSet[Mapping]" = weakref.WeakSet()
_by_key: "Dict[Key, weakref.WeakSet[Mapping]]" = {}
#: Those that write, and whose last array may have gone: they are being written back then, without the interpreter's lock.
_counts: Dict[Key, _core.RegionCount] = {}
MOST_SECONDS_TO_END = 600


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

    @property
    def threads(self) -> int:
        """How many calls a store written in Python likes at once."""
        return int(getattr(self.source, "threads", 1))

    def open(self) -> _core.Store:
        """The store, opened anew."""
        if isinstance(self.source, HeapPlace):
            return self.source.open().store
        if not isinstance(self.source, str):
            return _python_store.start(self.source, self.writes_to_store, self.page_size or 1 << 20, self.start)
        return _core.open_store(self.source, "write" if self.writes_to_store else "read")

    @property
    def writes_to_store(self) -> bool:
        return self.writable and not self.private_copy


class Mapping(_core.Region):
    """The memory under arrays. Arrays hold it as their ``base``; it ends with the last of them."""

    def __init__(self, cache: Cache, store: _core.Store, recipe: Recipe, among_processes: bool = False) -> None:
        engine = cache.engine_among_processes() if among_processes else cache._core
        super().__init__(engine, store, writable=recipe.writable, private_copy=recipe.private_copy,
                         offset=recipe.offset, length=recipe.length, page_size=recipe.page_size,
                         read_ahead=recipe.read_ahead, advice=recipe.advice)
        self.cache = cache
        self.recipe = recipe
        self.among_processes = among_processes
        self.store: Optional[_core.ChannelStore] = store if isinstance(store, _core.ChannelStore) else None
        with _lock:
            _live.add(self)
            for gone in [key for key, known in _by_key.items() if not known] if len(_by_key) > 2 * len(_live) else []:
                del _by_key[gone]
                if gone in _counts and _counts[gone].value == 0:
                    del _counts[gone]
            if self.writes_to_store:
                self.count_in(_counts.setdefault(recipe.key, _core.RegionCount()))
            _by_key.setdefault(recipe.key, weakref.WeakSet()).add(self)
            cache.note_mapping(self)

    @property
    def writes_to_store(self) -> bool:
        """Whether what is written to it is to reach the store."""
        return self.recipe.writes_to_store

    @property
    def through_kernel(self) -> bool:
        """Whether its memory is the kernel's page cache: then it has no copy that could differ from another's."""
        return self.among_processes or self.cache.fault_mode == "kernel"

    @property
    def end(self) -> int:
        """The byte of the store behind its last."""
        return self.recipe.offset + self.size

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
        engine = self.cache.engine_among_processes() if self.writes_to_store else self.cache._core
        store = self.recipe.open() if self.store is None else _python_store.attach(self.store, self.recipe.threads)
        _core.give_up_addresses(self.address, held_bytes(self))
        try:
            self.map_again(engine, store)
        except (OSError, ValueError) as error:
            if not self.hold_place():
                raise OSError(f"{error}; {PLACE_TAKEN}") from error
            raise
        self.store = store if isinstance(store, _core.ChannelStore) else None
        self.among_processes = self.writes_to_store

    def __reduce__(self) -> Any:
        return (mapping_of, (self.recipe, self.cache))

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


def finding() -> Any:
    """To be held from find() until its caller has made what it did not find."""
    return _finding


def find(key: Key, offset: int, length: int, writable: bool, cache: Optional[Cache]) -> Optional[Mapping]:
    """A shared mapping of this process that has these bytes.

    Two copies of written bytes would go apart. So a region that is written serves everyone; one that is only read
    serves readers who have not asked for another cache.
    """
    await_ends(key)
    # Writers first: what a reader from before has may be older.
    for mapping in sorted(shared_mappings(key), key=lambda known: not known.recipe.writable):
        if not mapping.covers(offset, length):
            continue
        if mapping.recipe.writable or not writable and (cache is None or mapping.cache is cache):
            return mapping
    return None


def await_ends(key: Key) -> None:
    """Waits until what nobody has any more is written: whoever maps it again is to see that, and not to undo it.

    Raises
    ------
    OSError
        EBUSY, if that takes ten minutes.
    """
    deadline = time.monotonic() + MOST_SECONDS_TO_END
    while True:
        with _lock:
            count = _counts.get(key)
            if count is None or count.value <= sum(mapping.writes_to_store for mapping in list(_by_key.get(key, ()))):
                return
        if time.monotonic() > deadline:
            raise OSError(errno.EBUSY, "an array of the same file that was given up is still being written: try again")
        time.sleep(0.001)


def shared_mappings(key: Key) -> List[Mapping]:
    """The mappings of these bytes in this process, private copies left out."""
    with _lock:
        return [mapping for mapping in _by_key.get(key, ()) if not mapping.recipe.private_copy]


def extent_to_write(recipe: Recipe, size: int, through_kernel: bool) -> Tuple[int, int]:
    """Offset and length of what to map for writing, where find() has found nothing: all of a file of that size.

    Whoever maps more of it later is then served by the same mapping. Where a part is mapped already, from before the
    file grew, it is what was asked for alone.

    Raises
    ------
    OSError
        EBUSY, if some of it is mapped for writing already: two copies of a page would undo one another's changes.
    """
    asked = (recipe.offset, recipe.length)
    others = [other for other in shared_mappings(recipe.key)
              if other.writes_to_store and not (through_kernel and other.through_kernel)]
    for extent in [asked] if path_of(recipe.source) is None else [(0, size), asked]:
        if not any(other.overlaps(*extent) for other in others):
            return extent
    mapped = next(other for other in others if other.overlaps(*asked))
    raise OSError(errno.EBUSY, f"{recipe.source} is mapped for writing from byte {mapped.recipe.offset} to "
                               f"{mapped.end}, and {asked[0]} to {sum(asked)} is asked for: delete those arrays first, "
                               "or map all of it at once")


@contextlib.contextmanager
def replacing(source: Any, size: int) -> Iterator[None]:
    """While a store gets new contents of that size: what its live mappings have of the old ones goes unwritten.

    Raises
    ------
    OSError
        EBUSY, if one that writes would not fit the new contents.
    """
    await_ends(key_of(source))
    live = [mapping for mapping in shared_mappings(key_of(source)) if not mapping.through_kernel]
    for mapping in live:
        fits = path_of(source) is not None and mapping.recipe.offset == 0 and mapping.size == size
        if mapping.writes_to_store and not fits:
            raise OSError(errno.EBUSY, f"{source} is mapped for writing from byte {mapping.recipe.offset} to "
                                       f"{mapping.end}, and is to be replaced by {size} bytes: delete those arrays "
                                       "first")
    for mapping in live:
        mapping.discard(0, mapping.size)
    yield
    for mapping in live:  # What was fetched meanwhile.
        mapping.discard(0, mapping.size)


def mapping_of(recipe: Recipe, cache: Cache) -> Mapping:
    """What a pickle of a mapping becomes: the one of this process, or a new one."""
    recipe = replace(recipe, key=key_of(recipe.source))  # Another machine numbers its files differently.
    with finding():
        known = find(recipe.key, recipe.offset, recipe.length, recipe.writable, cache)
        if known is not None and not recipe.private_copy:
            return known
        if recipe.writes_to_store and path_of(recipe.source) is None:
            recipe = replace(recipe, writable=False)  # Several writers of these could undo one another's work.
        if recipe.writes_to_store:
            offset, length = extent_to_write(recipe, recipe.offset + recipe.length, through_kernel=True)
            recipe = replace(recipe, offset=offset, length=length)
        return Mapping(cache, recipe.open(), recipe, among_processes=recipe.writes_to_store)


def live_mappings() -> List[Mapping]:
    """Every region of this process."""
    with _lock:
        return list(_live)


def after_fork_in_child() -> None:
    """Another thread may have held the lock when this process was forked."""
    global _lock, _finding
    _lock, _finding = threading.RLock(), threading.RLock()
    for key, count in _counts.items():  # Who was ending one is not here.
        count.value = sum(mapping.writes_to_store for mapping in list(_by_key.get(key, ())))
