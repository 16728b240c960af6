"""map(): an array whose memory is a file or another store."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
from dataclasses import dataclass, replace
from typing import Any, Dict, Optional, Tuple, Union

import numpy as np

from tiermap import _core, _dask, _finding, _mapping, _npy, _python_store, _store_url
from tiermap._array import Array, Origin, attach, attach_to_nothing
from tiermap._cache import Cache, default_cache
from tiermap._location import identity_of, is_npy, key_of, name_of, path_of, reopens, source_of
from tiermap._mapping import Mapping, Recipe
from tiermap._operations import shape_of
from tiermap._page_size import MIB, Size, check_word, choose_page_size, in_a_line, parse_page_size, parse_size
from tiermap._store_server import MOST_BYTES

MODES = {"r": "r", "readonly": "r", "r+": "r+", "readwrite": "r+", "w": "w+", "w+": "w+", "write": "w+", "c": "c",
         "copyonwrite": "c"}
#: What can be said of an array of which nothing is in memory yet.
ADVICE = ("normal", "sequential", "random", "will_need")
#: Regions begin at a multiple of this.
BLOCK = 4096
#: What cache=False takes where no budget is given.
PASS_BUDGET = 64 * MIB


class Layout:
    """Where an array's bytes lie in a store, and what they are."""

    def __init__(self, dtype: np.dtype, shape: Tuple[int, ...], order: str, start: int, header: bytes = b"") -> None:
        self.dtype = dtype
        self.shape = shape
        self.order = order
        self.start = start
        self.header = header  # Of data that are made.
        self.bytes = math.prod(shape) * dtype.itemsize
        if self.end > MOST_BYTES:
            raise ValueError(f"{dtype} of shape {shape} from byte {start} on ends at byte {self.end}: no store has "
                             f"more than {MOST_BYTES}, map less")
        # Before anything is made, numpy says what it has no arrays of.
        np.ndarray(shape, dtype, bytes(dtype.itemsize), strides=(0,) * len(shape))

    @property
    def end(self) -> int:
        return self.start + self.bytes

    @property
    def region_offset(self) -> int:
        return self.start // BLOCK * BLOCK

    @property
    def region_bytes(self) -> int:
        return self.start - self.region_offset + self.bytes

    @property
    def row_bytes(self) -> int:
        """What lies together: array[0], or the last column in Fortran order; an element of one dimension."""
        if len(self.shape) < 2:
            return self.dtype.itemsize
        rows = self.shape[0] if self.order == "C" else self.shape[-1]
        return self.bytes // max(rows, 1)


@dataclass(frozen=True)
class Wish:
    """How map() was asked to map, beside what the data look like."""

    source: Any
    mode: str
    page_size: Union[Size, None]
    read_ahead: Optional[Size]
    advice: str
    start: str


@dataclass(frozen=True)
class Opened:
    """A store, and what its name led to when it was opened."""

    store: _core.Store
    key: Tuple[Any, ...]
    identity: str


def map(where: Any, dtype: Any = None, shape: Any = None, mode: str = "r", budget: Optional[Size] = None,
        page_size: Union[Size, None] = "auto", *, offset: int = 0, order: str = "C", format: str = "auto",
        cache: Union[Cache, bool, None] = None, read_ahead: Optional[Size] = None, advice: str = "normal",
        overwrite: bool = False, start: str = "fork") -> Array:
    """Maps a file, or any other store, as an array.

    Parameters
    ----------
    where : path, URL or object
        A path; a URL of ``docs/stores.md`` (``file:``, ``npy:``, ``hdf5:``, ``fits:``, ``csv:``,
        ``parquet:``, ``s3:``, ``concat:``, ``sparse:``, ``memory:``, ``tiered:``, patterns, and files of
        formats in S3, such as ``hdf5:s3://bucket/x.h5:/dataset``); or a store written in Python, see
        ``tiermap.Store``.
    dtype : dtype, optional
        Of the elements. What has a format (``.npy``, HDF5, Parquet, FITS, CSV) says it itself; bytes (``uint8``) otherwise.
    shape : int or tuple of int, optional
        What has a format (``.npy``, HDF5, Parquet, FITS, CSV) says it itself; otherwise one dimension with all there is.
    mode : str, optional
        ``r`` to read; ``r+`` to read and write what exists; ``w`` or ``w+`` to make it; ``c`` to change a private copy.
    budget : int or str, optional
        Memory for this array alone, in a cache of its own: ``"4GiB"``, ``"50%"``. Without it, and without ``cache``,
        arrays share ``tiermap.default_cache()``, whose budget is at most 4 GiB.
    page_size : int or str, optional
        A power of two from 4 KiB to 64 MiB; ``"auto"`` chooses, see ``tiermap.choose_page_size``; None leaves it to
        TIERMAP_PAGE_SIZE.
    offset : int, optional
        Where raw data begin, in bytes; any number.
    order : {'C', 'F'}, optional
        Of raw data.
    format : {'auto', 'npy', 'raw'}, optional
        Whether there is a header. ``auto`` goes by the name: ``.npy`` at its end has one, and so has ``npy:``. What an
        HDF5 dataset or a Parquet file says of its elements is looked at unless it is ``raw``.
    cache : Cache or False, optional
        The cache to share. False is for reading once, in order: a small cache of its own, out of which what was read
        goes first.
    read_ahead : int or str, optional
        Most that is read ahead of one stream; 0 turns it off.
    advice : str, optional
        ``normal``, ``sequential``, ``random``, or ``will_need`` to start fetching all of it.
    overwrite : bool, optional
        With ``w``: replace what exists.
    start : {'fork', 'spawn'}, optional
        How the process of a store written in Python is started.

    Returns
    -------
    Array
        An ``ndarray``. Its memory is given back when its last view is gone; what was written is written back then,
        and made durable by ``sync()`` only.

    Raises
    ------
    ValueError
        For what can never be: a dtype or shape that does not fit, a bad page size or budget.
    OSError
        FileNotFoundError, FileExistsError (``w`` without ``overwrite``), and what else the system says.

    Notes
    -----
    What is mapped for writing twice in one process is one mapping: both see what either writes. Its cache, page size,
    read-ahead and advice are those of the first; what a later array asks for is checked, and not applied.
    """
    array: Array = map_as(Array, where, dtype, shape, mode, budget, page_size, offset=offset, order=order,
                          format=format, cache=cache, read_ahead=read_ahead, advice=advice, overwrite=overwrite,
                          start=start)
    return array


def map_as(kind: type, where: Any, dtype: Any, shape: Any, mode: str, budget: Optional[Size],
           page_size: Union[Size, None], *, offset: int, order: str, format: str, cache: Union[Cache, bool, None],
           read_ahead: Optional[Size], advice: str, overwrite: bool, start: str, as_numpy: bool = False) -> Any:
    """map() for a class of arrays. With ``as_numpy``, files grow to what the shape asks for, and empty ones cannot be
    read."""
    check_word(mode, MODES, "mode", "r, r+, w, w+ or c")
    mode = MODES[mode]
    check_word(order, ("C", "F"), "order", "C or F")
    check_word(format, ("auto", "npy", "raw"), "format", "auto, npy or raw")
    check_options(page_size, read_ahead, advice, start)
    offset = parse_size(offset, "offset")
    source = source_of(where)
    with_header = has_header(where, source, format)
    if with_header and offset != 0:
        raise ValueError(f"offset {offset} and a .npy header: the header says where the data begin; leave one out")
    asked = None if dtype is None else checked_dtype(dtype)
    wanted = None if shape is None else shape_of(shape)
    serving, asked_for = cache_for(cache, budget)
    if cache is False:
        advice = "sequential" if advice == "normal" else advice
    if "dask.base" in sys.modules:
        _dask.tell_dask(kind)
    wish = Wish(source, mode, page_size, read_ahead, advice, start)
    if mode == "w+":
        return make(kind, wish, layout_to_make(source, asked, wanted, offset, order, with_header), overwrite, serving,
                    asked_for)
    opened = open_existing(source, mode, page_size, start)
    if format == "auto" and opened.store.elements is not None:
        asked, wanted, order = described(opened.store, name_of(source), asked, wanted)
    layout = layout_of(opened.store, source, asked, wanted, offset, order, with_header, mode, as_numpy)
    with _finding.finding(source, mode == "r+") as found:
        return array_on(kind, wish, layout, opened, serving, asked_for, found)


def has_header(where: Any, source: Any, format: str) -> bool:
    if format == "raw" and isinstance(where, str) and _store_url.is_npy(where):
        raise ValueError(f"{where} means the elements behind a header, and no header is looked for: map it with "
                         "tiermap.map() and without format, or the whole file by its path")
    return format == "npy" or format == "auto" and is_npy(where, source)


def make(kind: type, wish: Wish, layout: Layout, overwrite: bool, cache: Cache, asked_for: bool) -> Any:
    """An array of new data. Nobody is to map them between their making or emptying and their mapping."""
    made = False
    try:
        with _finding.finding(wish.source, True) as found:
            found.refuse_within_another()
            store, made = create(wish.source, layout.end, overwrite)
            opened = Opened(store, key_of(wish.source), identity_of(wish.source))
            if not made:
                replace_contents(opened, cache, wish, layout)
            elif layout.header:
                store.write(0, layout.header)
            return array_on(kind, wish, layout, opened, cache, asked_for, found)
    except BaseException:
        path = path_of(wish.source)
        if made and path is not None:
            os.unlink(os.path.realpath(path))  # Nothing is left of a mapping that could not be.
        raise


def array_on(kind: type, wish: Wish, layout: Layout, opened: Opened, cache: Cache, asked_for: bool,
             found: _finding.Finding) -> Any:
    """The array that was wished for, on a mapping that there is or a new one."""
    origin = Origin(wish.source, layout.start, wish.mode)
    if layout.bytes == 0:
        return attach_to_nothing(kind, zeroed(cache.engine.statistics()), layout.shape, layout.dtype,
                                 order=layout.order, writable=wish.mode != "r", origin=origin)
    mapping = region_for(cache, asked_for, opened, wish, layout, found)
    return attach(kind, mapping, layout.shape, layout.dtype, layout.start, order=layout.order,
                  writable=wish.mode != "r", origin=origin)


def check_options(page_size: Union[Size, None], read_ahead: Optional[Size], advice: str, start: str) -> None:
    """Said before anything is touched, and also of an array that shares a mapping and needs no options."""
    if page_size is not None and not is_automatic(page_size):
        parse_page_size(page_size)
    if read_ahead is not None:
        parse_size(read_ahead, "read ahead")
    check_word(advice, ADVICE, "advice", f"from {', '.join(ADVICE)}")
    check_word(start, ("fork", "spawn"), "start", "fork or spawn")


def is_automatic(page_size: Any) -> bool:
    return isinstance(page_size, str) and page_size == "auto"


def cache_for(cache: Union[Cache, bool, None], budget: Optional[Size]) -> Tuple[Cache, bool]:
    """The cache to map with, and whether it was asked for by name."""
    if isinstance(cache, Cache):
        if cache.closed:
            raise ValueError("the cache is closed: map before close(), or make another")
        if budget is not None:
            raise ValueError("both cache and budget are given: the cache has a budget; leave one out")
        return cache, True
    if cache is not None and not isinstance(cache, bool):
        raise TypeError(f"cache {in_a_line(cache)} is no cache: give a tiermap.Cache, or False to read once")
    if cache is False:
        return Cache(PASS_BUDGET if budget is None else budget), True
    return (default_cache(), False) if budget is None else (Cache(budget), True)


def known_dtype(dtype: Any) -> np.dtype:
    """What numpy makes of it, with a message that says which argument it does not understand."""
    try:
        made: np.dtype = np.dtype(dtype)
    except TypeError as error:
        said = in_a_line(dtype)
        raise TypeError(f"dtype {said} is none that numpy knows ({error}): give one such as 'float32'") from None
    return made


def checked_dtype(dtype: Any) -> np.dtype:
    made = known_dtype(dtype)
    if made.hasobject:
        raise ValueError(f"dtype {made} holds Python objects, which are addresses of this process: map numbers or text")
    if made.itemsize == 0:
        raise ValueError(f"dtype {made} has elements of no bytes: give its size, such as S8 or U8")
    return made


def layout_to_make(source: Any, dtype: Optional[np.dtype], shape: Optional[Tuple[int, ...]], offset: int, order: str,
                   with_header: bool) -> Layout:
    """Of data that are to be made, with their header."""
    if shape is None:
        raise ValueError("shape is missing: mode w makes the data, and has to know how much")
    if not isinstance(source, str):
        raise ValueError(f"mode w makes a store, and {name_of(source)} is one: map it with mode='r+'")
    dtype = np.dtype(np.uint8) if dtype is None else dtype
    if with_header and dtype.subdtype is not None:  # A header has a name for the numbers alone.
        if order == "F":
            raise ValueError(f"dtype {dtype} in Fortran order is nothing that a .npy header can say: give the type of "
                             "the numbers, and a shape that has all dimensions")
        dtype, inner = dtype.subdtype
        shape += inner
    header = _npy.make_header(dtype, shape, order == "F") if with_header else b""
    return Layout(dtype, shape, order, len(header) if with_header else offset, header)


def create(source: str, size: int, overwrite: bool) -> Tuple[_core.Store, bool]:
    """The store, and whether there was none before. What there was is as it was."""
    path = path_of(source)
    # A link that leads to nothing is no file that exists.
    if path is not None and os.path.islink(path) and not os.path.exists(path):
        source = os.path.realpath(path)
    try:
        return _core.open_store(source, "create", size), True
    except FileExistsError:
        if not overwrite:
            raise FileExistsError(errno.EEXIST, f"{source} exists: map it with mode='r+', or give overwrite=True to "
                                                "replace it") from None
        return _core.open_store(source, "write"), False


def replace_contents(opened: Opened, cache: Cache, wish: Wish, layout: Layout) -> None:
    """Empties what there is, and gives it its new size and header; only if it can be mapped then."""
    store = opened.store
    with _mapping.replacing(wish.source, layout.end):
        size = store.size
        try:
            store.resize(max(layout.end, size))
            end = layout.end if layout.bytes > 0 else size  # Of nothing there is no region, but others have the file.
            if end > 0 and _mapping.find(wish.source, opened.key, 0, end, True, None) is None:
                recipe = recipe_for(wish, layout, opened, cache)
                _core.Region(cache.engine, store, writable=True, length=end, page_size=recipe.page_size,
                             read_ahead=recipe.read_ahead, file=recipe.file)
        except BaseException:
            undo_growth(store, wish.source, size, max(layout.end, size))
            raise
        store.resize(0)
        store.resize(layout.end)
        if layout.header:
            store.write(0, layout.header)


def open_existing(source: Any, mode: str, page_size: Union[Size, None], start: str) -> Opened:
    while isinstance(source, str):
        identity = identity_of(source)
        opened = Opened(_core.open_store(source, "write" if mode == "r+" else "read"), key_of(source), identity)
        if identity_of(source) == identity:  # Not replaced meanwhile.
            return opened
    slots = MIB if page_size is None or is_automatic(page_size) else parse_size(page_size, "page size")
    return Opened(_python_store.start(source, mode == "r+", slots, start), key_of(source), "")


def layout_of(store: _core.Store, source: Any, dtype: Optional[np.dtype], shape: Optional[Tuple[int, ...]], offset: int,
              order: str, with_header: bool, mode: str, as_numpy: bool) -> Layout:
    """What the caller and the store say together; ValueError where they do not agree."""
    name = name_of(source)
    if as_numpy and mode != "r+" and store.size == 0:
        raise ValueError(f"{name} is empty, and mode {mode} makes it no longer: write to it before, or give mode='r+' "
                         "and a shape")
    if with_header:
        header = _npy.read_header(store.read, name)
        if dtype is not None and dtype != header.dtype:
            raise ValueError(f"{name} holds {header.dtype}, not {dtype}: leave dtype out, or map with format='raw'")
        if shape is not None and shape != header.shape:
            raise ValueError(f"{name} has the shape {header.shape}, not {shape}: leave shape out")
        layout = Layout(header.dtype, header.shape, "F" if header.fortran_order else "C", header.bytes)
    else:
        made = np.dtype(np.uint8) if dtype is None else dtype
        if shape is None:
            shape = (whole_elements(store.size, offset, made, name),)
        layout = Layout(made, shape, order, offset)
    if layout.end > store.size and not (as_numpy and mode == "r+" and store.growable):
        raise ValueError(f"{name} has {store.size} bytes, and {layout.dtype} of shape {layout.shape} from byte "
                         f"{layout.start} on takes {layout.end}: map less, or make the file longer")
    return layout


def described(store: _core.Store, name: str, dtype: Optional[np.dtype],
              shape: Optional[Tuple[int, ...]]) -> Tuple[np.dtype, Tuple[int, ...], str]:
    """What the store's format says of its elements; of records the caller knows the fields."""
    assert store.elements is not None
    said: Any = store.elements[0]
    there, extents = np.dtype(said), store.elements[1]
    if dtype is not None and dtype != there and not (there.kind == "V" and dtype.itemsize == there.itemsize):
        raise ValueError(f"{name} holds {there}, not {dtype}: leave dtype out, or map with format='raw'")
    if shape is not None and shape != extents:
        raise ValueError(f"{name} has the shape {extents}, not {shape}: leave shape out")
    return there if dtype is None else dtype, extents, "C"


def whole_elements(size: int, offset: int, dtype: np.dtype, name: str) -> int:
    if offset > size:
        raise ValueError(f"offset {offset} is behind the end of {name}, which has {size} bytes: map from its inside")
    count, rest = divmod(size - offset, dtype.itemsize)
    if rest != 0:
        raise ValueError(f"{name} has {size - offset} bytes from offset {offset} on, no multiple of the "
                         f"{dtype.itemsize} of {dtype}: give a shape, or another dtype")
    return count


def recipe_for(wish: Wish, layout: Layout, opened: Opened, cache: Cache) -> Recipe:
    """What was wished for, in full."""
    pages: Optional[int]
    if is_automatic(wish.page_size):
        # Of a file that is written all is mapped.
        whole = opened.store.size if wish.mode in ("r+", "w+") and path_of(wish.source) is not None else 0
        pages = choose_page_size(max(layout.region_bytes, whole), layout.row_bytes, cache.budget,
                                 sequential=wish.advice == "sequential")
    else:
        pages = None if wish.page_size is None else parse_page_size(wish.page_size)
    read_ahead = None if wish.read_ahead is None else parse_size(wish.read_ahead, "read ahead")
    return Recipe(source=wish.source, key=opened.key, writable=wish.mode != "r",
                  private_copy=wish.mode == "c", offset=layout.region_offset, length=layout.region_bytes,
                  page_size=pages, read_ahead=read_ahead, advice=wish.advice, start=wish.start,
                  reopens=reopens(wish.source), identity=opened.identity)


def region_for(cache: Cache, asked_for: bool, opened: Opened, wish: Wish, layout: Layout,
               found: _finding.Finding) -> Mapping:
    """The mapping of this process that has these bytes, or a new one; what the store lacks is added to it."""
    store, recipe = opened.store, recipe_for(wish, layout, opened, cache)
    if recipe.private_copy:
        _mapping.write_for_copy(recipe)
    elif isinstance(wish.source, str):
        known = _mapping.find(wish.source, recipe.key, recipe.offset, recipe.length, recipe.writable,
                              cache if asked_for else None)
        if known is not None:
            return known
        found.refuse_within_another()
    size = store.size
    if recipe.writes_to_store and isinstance(wish.source, str):
        recipe = to_write(recipe, max(size, layout.end))
    if layout.end > size:
        store.resize(layout.end)
    try:
        mapping = Mapping(cache, store, recipe)
    except BaseException:
        undo_growth(store, wish.source, size, layout.end)
        raise
    if wish.advice == "will_need" and recipe.advice != wish.advice:
        mapping.advise(wish.advice, layout.region_offset - recipe.offset, layout.region_bytes)
    return mapping


def undo_growth(store: _core.Store, source: Any, before: int, grown: int) -> None:
    """Of a mapping that could not be: the store is as long as before, unless others have made the file longer still."""
    if grown > before and ends_there(source, grown):
        store.resize(before)


def ends_there(source: Any, size: int) -> bool:
    """Whether a file has that size."""
    path = path_of(source)
    with contextlib.suppress(OSError):
        return path is None or os.stat(path).st_size == size
    return False


def to_write(recipe: Recipe, size: int) -> Recipe:
    """A recipe made to map all that has to be one mapping; advice to fetch remains for the caller then."""
    offset, length = _mapping.extent_to_write(recipe, size)
    if recipe.advice == "will_need" and length > recipe.length:
        recipe = replace(recipe, advice="normal")
    return replace(recipe, offset=offset, length=length)


def zeroed(counters: Dict[str, Any]) -> Dict[str, Any]:
    """The same counters of one that did nothing."""
    return {name: zeroed(value) if isinstance(value, dict) else 0 for name, value in counters.items()}
