"""map(): an array whose memory is a file or another store."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
from dataclasses import replace
from typing import Any, Optional, Tuple, Union

import numpy as np

from tiermap import _core, _dask, _mapping, _npy, _python_store
from tiermap._array import Array, Origin, attach
from tiermap._cache import Cache, default_cache
from tiermap._location import is_npy, key_of, name_of, path_of, reopens, source_of
from tiermap._mapping import Mapping, Recipe
from tiermap._operations import shape_of
from tiermap._page_size import MIB, Size, choose_page_size, parse_page_size, parse_size
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

    def __init__(self, dtype: np.dtype, shape: Tuple[int, ...], order: str, start: int) -> None:
        self.dtype = dtype
        self.shape = shape
        self.order = order
        self.start = start
        self.bytes = math.prod(shape) * dtype.itemsize
        if self.end > MOST_BYTES:
            raise ValueError(f"{dtype} of shape {shape} from byte {start} on ends at byte {self.end}: no store has more "
                             f"than {MOST_BYTES}, map less")

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


def map(where: Any, dtype: Any = None, shape: Any = None, mode: str = "r", budget: Optional[Size] = None,
        page_size: Union[Size, None] = "auto", *, offset: int = 0, order: str = "C", format: str = "auto",
        cache: Union[Cache, bool, None] = None, read_ahead: Optional[Size] = None, advice: str = "normal",
        overwrite: bool = False, start: str = "fork") -> Array:
    """Maps a file, or any other store, as an array.

    Parameters
    ----------
    where : path, URL or object
        A path; a URL of ``docs/stores.md`` (``file:``, ``concat:``, ``sparse:``, ``memory:``, patterns); or a store
        written in Python, see ``tiermap.Store``.
    dtype : dtype, optional
        Of the elements. A ``.npy`` file says it itself; bytes (``uint8``) otherwise.
    shape : int or tuple of int, optional
        A ``.npy`` file says it itself; otherwise one dimension with all there is.
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
        Whether there is a header. ``auto`` goes by the name: ``.npy`` has one.
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
           read_ahead: Optional[Size], advice: str, overwrite: bool, start: str, extend: bool = False) -> Any:
    """map() for a class of arrays. ``extend`` lets a file grow to what the shape asks for."""
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is unknown: choose r, r+, w, w+ or c")
    mode = MODES[mode]
    if order not in ("C", "F"):
        raise ValueError(f"order {order!r} is unknown: choose C or F")
    if format not in ("auto", "npy", "raw"):
        raise ValueError(f"format {format!r} is unknown: choose auto, npy or raw")
    check_options(page_size, read_ahead, advice, start)
    offset = parse_size(offset, "offset")
    source = source_of(where)
    with_header = format == "npy" or format == "auto" and is_npy(source)
    if with_header and offset != 0:
        raise ValueError(f"offset {offset} and a .npy header: the header says where the data begin; leave one out")
    asked = None if dtype is None else checked_dtype(dtype)
    wanted = None if shape is None else shape_of(shape)
    serving, asked_for = cache_for(cache, budget)
    if cache is False:
        advice = "sequential" if advice == "normal" else advice
    if "dask.base" in sys.modules:
        _dask.tell_dask(kind)
    made = False
    try:
        # Nobody is to map it between its emptying and its mapping.
        with _mapping.finding() if mode == "w+" else contextlib.nullcontext():
            if mode == "w+":
                store, layout, made = create(source, asked, wanted, offset, order, with_header, overwrite, start)
            else:
                store = open_existing(source, mode, page_size, start)
                layout = layout_of(store, source, asked, wanted, offset, order, with_header, mode, extend)
            origin = Origin(source, layout.start, mode)
            if layout.bytes == 0:
                return empty(kind, layout, mode)
            mapping = region_for(serving, asked_for, store, source, layout, mode, page_size, read_ahead, advice, start)
            return attach(kind, mapping, layout.shape, layout.dtype, layout.start, order=layout.order,
                          writable=mode != "r", origin=origin)
    except BaseException:
        path = path_of(source)
        if made and path is not None:
            os.unlink(path)  # Nothing is left of a mapping that could not be.
        raise


def check_options(page_size: Union[Size, None], read_ahead: Optional[Size], advice: str, start: str) -> None:
    """Said before anything is touched, and also of an array that shares a mapping and needs no options."""
    if page_size not in ("auto", None):
        parse_page_size(page_size)
    if read_ahead is not None:
        parse_size(read_ahead, "read ahead")
    if advice not in ADVICE:
        raise ValueError(f"advice {advice!r} is unknown: choose from {', '.join(ADVICE)}")
    if start not in ("fork", "spawn"):
        raise ValueError(f"start {start!r} is unknown: choose fork or spawn")


def cache_for(cache: Union[Cache, bool, None], budget: Optional[Size]) -> Tuple[Cache, bool]:
    """The cache to map with, and whether it was asked for by name."""
    if isinstance(cache, Cache):
        if cache.closed:
            raise ValueError("the cache is closed: map before close(), or make another")
        if budget is not None:
            raise ValueError("both cache and budget are given: the cache has a budget; leave one out")
        return cache, True
    if cache is not None and not isinstance(cache, bool):
        raise TypeError(f"cache {cache!r} is no cache: give a tiermap.Cache, or False to read once")
    if cache is False:
        return Cache(PASS_BUDGET if budget is None else budget), True
    return (default_cache(), False) if budget is None else (Cache(budget), True)


def checked_dtype(dtype: Any) -> np.dtype:
    made: np.dtype = np.dtype(dtype)
    if made.hasobject:
        raise ValueError(f"dtype {made} holds Python objects, which are addresses of this process: map numbers or text")
    if made.itemsize == 0:
        raise ValueError(f"dtype {made} has elements of no bytes: give its size, such as S8 or U8")
    return made


def create(source: Any, dtype: Optional[np.dtype], shape: Optional[Tuple[int, ...]], offset: int, order: str,
           with_header: bool, overwrite: bool, start: str) -> Tuple[_core.Store, Layout, bool]:
    """Makes the store, header included; whether there was none before."""
    if shape is None:
        raise ValueError("shape is missing: mode w+ makes the data, and has to know how much")
    dtype = np.dtype(np.uint8) if dtype is None else dtype
    header = _npy.make_header(dtype, shape, order == "F") if with_header else b""
    layout = Layout(dtype, shape, order, len(header) if with_header else offset)
    total = layout.start + layout.bytes
    if not isinstance(source, str):
        raise ValueError(f"mode w+ makes a store, and {name_of(source)} is one: map it with mode='r+'")
    try:
        store = _core.open_store(source, "create", total)
    except FileExistsError:
        if not overwrite:
            raise FileExistsError(errno.EEXIST, f"{source} exists: map it with mode='r+', or give overwrite=True to "
                                                "replace it") from None
        store = _core.open_store(source, "write")
        with _mapping.replacing(source, total):
            store.resize(max(total, store.size))  # What cannot be that long is not emptied for it.
            store.resize(0)
            store.resize(total)
            if header:
                store.write(0, header)
        return store, layout, False
    if header:
        store.write(0, header)
    return store, layout, True


def open_existing(source: Any, mode: str, page_size: Union[Size, None], start: str) -> _core.Store:
    if isinstance(source, str):
        return _core.open_store(source, "write" if mode == "r+" else "read")
    slots = parse_size(page_size, "page size") if page_size not in ("auto", None) else MIB
    return _python_store.start(source, mode == "r+", slots, start)


def layout_of(store: _core.Store, source: Any, dtype: Optional[np.dtype], shape: Optional[Tuple[int, ...]], offset: int,
              order: str, with_header: bool, mode: str, extend: bool) -> Layout:
    """What the caller and the store say together; ValueError where they do not agree."""
    name = name_of(source)
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
    if layout.end > store.size and not (extend and mode == "r+" and store.growable):
        raise ValueError(f"{name} has {store.size} bytes, and {layout.dtype} of shape {layout.shape} from byte "
                         f"{layout.start} on takes {layout.end}: map less, or make the file longer")
    return layout


def whole_elements(size: int, offset: int, dtype: np.dtype, name: str) -> int:
    if offset > size:
        raise ValueError(f"offset {offset} is behind the end of {name}, which has {size} bytes: map from its inside")
    count, rest = divmod(size - offset, dtype.itemsize)
    if rest != 0:
        raise ValueError(f"{name} has {size - offset} bytes from offset {offset} on, no multiple of the "
                         f"{dtype.itemsize} of {dtype}: give a shape, or another dtype")
    return count


def region_for(cache: Cache, asked_for: bool, store: _core.Store, source: Any, layout: Layout, mode: str,
               page_size: Union[Size, None], read_ahead: Optional[Size], advice: str, start: str) -> Mapping:
    """The mapping of this process that has these bytes, or a new one; what the store lacks is added to it."""
    writable, private_copy = mode != "r", mode == "c"
    key = key_of(source)
    pages: Optional[int]
    if page_size == "auto":
        pages = choose_page_size(layout.region_bytes, layout.row_bytes, cache.budget,
                                 sequential=advice == "sequential")
    else:
        pages = None if page_size is None else parse_page_size(page_size)
    recipe = Recipe(source=source, key=key, writable=writable, private_copy=private_copy, offset=layout.region_offset,
                    length=layout.region_bytes, page_size=pages,
                    read_ahead=None if read_ahead is None else parse_size(read_ahead, "read ahead"), advice=advice,
                    start=start, reopens=reopens(source))
    with _mapping.finding():
        if not private_copy and isinstance(source, str):
            known = _mapping.find(key, recipe.offset, recipe.length, writable, cache if asked_for else None)
            if known is not None:
                return known
        size = store.size
        if recipe.writes_to_store and isinstance(source, str):
            recipe = to_write(recipe, max(size, layout.end), cache)
        if layout.end > size:
            store.resize(layout.end)
        try:
            mapping = Mapping(cache, store, recipe)
        except BaseException:
            if layout.end > size:
                store.resize(size)
            raise
    if advice == "will_need" and recipe.advice != advice:
        mapping.advise(advice, layout.region_offset - recipe.offset, layout.region_bytes)
    return mapping


def to_write(recipe: Recipe, size: int, cache: Cache) -> Recipe:
    """A recipe made to map all that has to be one mapping; advice to fetch remains for the caller then."""
    offset, length = _mapping.extent_to_write(recipe, size, cache.fault_mode == "kernel")
    if recipe.advice == "will_need" and length > recipe.length:
        recipe = replace(recipe, advice="normal")
    return replace(recipe, offset=offset, length=length)


def empty(kind: type, layout: Layout, mode: str) -> Any:
    """An array without elements: there is nothing to map."""
    make: Any = np.ndarray.__new__
    array = make(kind, layout.shape, dtype=layout.dtype, order=layout.order)
    array.flags.writeable = mode != "r"
    return array
