"""Cache: the memory that arrays share, and the threads that serve them."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import uuid
import warnings
import weakref
from operator import index
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Optional, TypeVar

from tiermap import _core
from tiermap._page_size import GIB, Size, in_a_line, parse_budget, utf8_of
from tiermap._statistics import Statistics
from tiermap._workers import share_of

if TYPE_CHECKING:
    from tiermap._array import Array
    from tiermap._mapping import Mapping

#: What the process's own cache takes at most, unless TIERMAP_BUFFER_SIZE or TIERMAP_CONFIG say otherwise.
DEFAULT_BUDGET = 4 * GIB
#: Bytes of a cache's name.
LONGEST_NAME = 63
#: Options of a cache that are texts, and those that are numbers.
TEXTS = ("policy", "fault_mode", "placement", "name", "trace")
NUMBERS = ("hot_share", "unmapped_share", "high_watermark", "low_watermark", "fillers", "evictors", "managers", "spin")
OPTIONS = ("budget", *TEXTS, *NUMBERS, "adapt")
Member = TypeVar("Member")

_lock = threading.RLock()  # A signal handler may map too.
_caches: "weakref.WeakSet[Cache]" = weakref.WeakSet()
_by_token: "weakref.WeakValueDictionary[str, Cache]" = weakref.WeakValueDictionary()
_default: "Optional[Cache]" = None


class Cache:
    """Memory for the pages of arrays, under an exact budget.

    Parameters
    ----------
    budget : int or str, optional
        Bytes, ``"4GiB"``, or a share of the available memory, ``"50%"``, less what other caches may still take of it. By
        default what TIERMAP_BUFFER_SIZE says, else half of that; in workers of ``multiprocessing`` and the like that
        half is cut into twice as many parts as there are processors (of 17 MiB at least), of which each has one, and
        under ``mpiexec`` or ``srun`` into as many as it has started processes on the node.
    policy : str, optional
        Which page goes when memory is full: ``fifo``, ``lru``, ``hot-fifo``, ``segmented-fifo``, ``small-main`` or
        ``cyclic`` (the default).
    fault_mode : str, optional
        ``notify`` (the default where the machine permits it), ``self-serving`` or ``kernel``.
    name : str, optional
        What ``tiermap top`` calls it.
    **options
        The others of the cache: ``placement``, ``hot_share``, ``unmapped_share``, ``high_watermark``,
        ``low_watermark``, ``fillers``, ``evictors``, ``managers``, ``spin``, ``adapt``, ``trace``, as in
        ``docs/reference.md``.

    Raises
    ------
    ValueError
        For a value that cannot be used.
    OSError
        Where the machine refuses what was asked for.

    Notes
    -----
    All methods may be called from any thread. Arrays keep their cache alive. Pickling sends the options: wherever it
    arrives, one cache of the same options serves all arrays that shared this one.

    Examples
    --------
    >>> with tiermap.Cache("256MiB") as cache:
    ...     rows = cache.map("rows.npy")
    ...     print(rows[[5, 17, 99]].mean(), cache.stats()["resident_bytes"])
    """

    def __init__(self, budget: Optional[Size] = None, *, policy: Optional[str] = None,
                 fault_mode: Optional[str] = None, name: Optional[str] = None, **options: Any) -> None:
        self._options: Dict[str, Any] = {"budget": parse_budget(budget), "policy": policy, "fault_mode": fault_mode,
                                         "name": name, **options}
        self._token = uuid.uuid4().hex
        self._closed = False
        self._mappings: "weakref.WeakSet[Mapping]" = weakref.WeakSet()
        self._engine: Optional[_core.Cache] = self._start()
        with _lock:
            _caches.add(self)
            _by_token[self._token] = self

    def map(self, where: Any, dtype: Any = None, shape: Any = None, mode: str = "r", **options: Any) -> Array:
        """``tiermap.map()`` with this cache."""
        from tiermap._map import map as map_array

        return map_array(where, dtype, shape, mode, cache=self, **options)

    @property
    def budget(self) -> int:
        """Bytes; setting it evicts at once what is over the new one."""
        return self.engine.budget

    @budget.setter
    def budget(self, value: Size) -> None:
        number = parse_budget(value, self.engine.budget)
        if number is None:
            raise TypeError("budget None: give bytes, or a text such as '4GiB'")
        self.engine.budget = number
        self._options["budget"] = number

    @property
    def fault_mode(self) -> str:
        """``notify``, ``self-serving`` or ``kernel``."""
        return self.engine.fault_mode

    @property
    def fault_mode_reason(self) -> str:
        """One line on why, and what would give more."""
        return self.engine.fault_mode_reason

    @property
    def mappings(self) -> List[Mapping]:
        """The regions it serves now."""
        with _lock:
            return [mapping for mapping in members(self._mappings) if mapping.is_here]

    def note_mapping(self, mapping: Mapping) -> None:
        """It is served by this cache from now on."""
        with _lock:
            self._mappings.add(mapping)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._closed

    def stats(self) -> Statistics:
        """What it did so far: all its arrays together, those that are gone included."""
        statistics = Statistics(self.engine.statistics())
        statistics.title = f"Tiermap cache: {len(self._mappings)} mapped, {self.fault_mode}"
        return statistics

    def sync(self, progress: Optional[Callable[[int, int], object]] = None) -> None:
        """Writes back what is dirty in all its arrays and makes it durable.

        Parameters
        ----------
        progress : callable, optional
            Called with the bytes looked at and the bytes of all, after each piece.

        Raises
        ------
        OSError
            If something could not be written: it stays in memory and changed.
        """
        mappings = [mapping for mapping in self.mappings if mapping.writes_to_store]
        total = sum(mapping.size for mapping in mappings)
        done = 0
        for mapping in mappings:
            mapping.sync_range(0, mapping.size, progress, done, total)
            done += mapping.size

    def drop(self) -> None:
        """Gives the memory of all its arrays back; what is dirty is written first."""
        for mapping in self.mappings:
            mapping.advise("dont_need", 0, mapping.size)

    def close(self) -> None:
        """sync(), and no new arrays from now on. Arrays that live stay usable, and keep memory until they go."""
        if not self._closed:
            self.sync()
            self._closed = True

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Mapping]:
        return iter(self.mappings)

    def __reduce__(self) -> Any:
        return (_cache_like, (self._token, self._options))

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<tiermap.Cache of {_core.format_size(self.budget)}, {len(self._mappings)} mapped{state}>"

    def _repr_html_(self) -> str:
        return self.stats()._repr_html_()

    @property
    def engine(self) -> _core.Cache:
        """What serves its arrays in this process."""
        with _lock:
            if self._engine is None:
                self._engine = self._start()
            return self._engine

    def _start(self) -> _core.Cache:
        engine = start(self._options)
        self._whole_budget = engine.budget
        self._limit(engine)
        return engine

    def _limit(self, engine: _core.Cache) -> None:
        if self._options["budget"] is not None or _core.is_budget_said():
            return
        budget = share_of(self._whole_budget)
        budget = min(budget, DEFAULT_BUDGET) if self._token == "default" else budget
        engine.budget = max(budget, engine.minimum_budget)  # A worker's regions have the pages of its parent's.

    def begin_worker(self) -> None:
        """In a forked child that has turned out to be a worker."""
        if self._engine is not None:
            self._limit(self._engine)

    def start_again(self) -> None:
        """In a forked child, whose parent has the threads: a new engine of the same options if the parent had one."""
        if self._engine is not None:
            self._engine = self._start()

    def forget_mappings(self) -> None:
        """In a forked child that has none of its parent's: a new engine, if one is asked for."""
        self._engine = None
        self._mappings = weakref.WeakSet()


def members(known: Iterable[Member]) -> List[Member]:
    """Of a weak set, which a signal handler may change meanwhile."""
    while True:
        try:
            return list(known)
        except RuntimeError:
            pass


def level_of_the_script() -> int:
    """For a warning of the function that calls this: how far up the line is that called the package."""
    package = os.path.dirname(__file__) + os.sep
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    return level


def start(options: Dict[str, Any]) -> _core.Cache:
    """The engine of a cache. Never in fault mode self-serving unless asked for."""
    show_tracebacks_of_bus_errors()
    check_options(options)
    core = _core.Cache(**options)
    if core.fault_mode != "self-serving" or "asked for" in core.fault_mode_reason:
        return core
    # System calls on what is not in memory fail either way here; messages leave SIGBUS to the program.
    reason = core.fault_mode_reason.partition("; ")[2]  # What was tried, behind what another mode would mean.
    core.release()
    warnings.warn(f"system calls that are handed pages which are not in memory fail with EFAULT here ({reason}): "
                  "file.write(array) and the like need a copy", RuntimeWarning, stacklevel=level_of_the_script())
    return _core.Cache(**{**options, "fault_mode": "notify"})


def check_options(options: Dict[str, Any]) -> None:
    """What the extension module would refuse in many lines."""
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"a cache has no option {name!r}: choose among {', '.join(OPTIONS)}")
    if not isinstance(options.get("adapt"), (bool, type(None))):
        raise TypeError(f"adapt {in_a_line(options['adapt'])} is neither True nor False: give one of them")
    for name in TEXTS:
        if not isinstance(options.get(name), (str, type(None))):
            raise TypeError(f"{name} {in_a_line(options[name])} is no text: give a str")
        if options.get(name) is not None and utf8_of(options[name]) != options[name]:
            raise ValueError(f"{name} {options[name]!r} has letters that are none in UTF-8: leave them out")
    for name in NUMBERS:
        value = options.get(name)
        if value is None:
            continue
        try:
            number = index(value)
        except TypeError:
            raise TypeError(f"{name} {in_a_line(value)} is no whole number: give one from 0 on") from None
        if not 0 <= number < 1 << 32:
            raise ValueError(f"{name} {value} is out of range: give 0 to {(1 << 32) - 1}")


def show_tracebacks_of_bus_errors() -> None:
    """A page that cannot be read raises SIGBUS: then Python's stack is to be seen."""
    if not faulthandler.is_enabled() and signal.getsignal(signal.SIGBUS) is signal.SIG_DFL:
        try:
            faulthandler.enable()
        except (RuntimeError, ValueError, OSError, AttributeError):  # No standard error to write to.
            pass


def program_name() -> str:
    """Of the script, as far as ``tiermap top`` has room for it: files have names of any length and of any bytes."""
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    printable = "".join(character if character.isprintable() else "?" for character in name)
    return printable.encode()[:LONGEST_NAME].decode(errors="ignore") or "python"


def default_cache() -> Cache:
    """The cache of arrays that are mapped without a budget and without a cache; made when first asked for.

    Its budget is TIERMAP_BUFFER_SIZE, or what the file of TIERMAP_CONFIG says; without either, that of a cache that is
    made without one, and not more than 4 GiB.
    """
    global _default
    with _lock:
        if _default is not None:
            return _default
    made = Cache(name=program_name())
    with _lock:
        if _default is None:
            _default = made
            made._token = "default"
            _by_token["default"] = made
            made._limit(made.engine)
        return _default


def live_caches() -> List[Cache]:
    """Every cache of this process."""
    with _lock:
        return members(_caches)


def after_fork_in_child() -> None:
    """Another thread may have held the lock when this process was forked."""
    global _lock
    _lock = threading.RLock()


def _cache_like(token: str, options: Dict[str, Any]) -> Cache:
    """The cache that a pickle means: the same one here, or one like it for all that arrive with its token."""
    if token == "default":
        return default_cache()
    with _lock:
        known = _by_token.get(token)
    if known is not None:
        return known
    budget = options["budget"]
    made = Cache(**{**options, "budget": budget})
    with _lock:
        made._token = token
        return _by_token.setdefault(token, made)
