"""Array: a numpy.ndarray that knows the mapping its memory belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import numpy as np

from tiermap import _dask, _gather, _operations
from tiermap._location import identity_of
from tiermap._mapping import Mapping
from tiermap._page_size import MIB, Size
from tiermap._statistics import Statistics


@dataclass(frozen=True)
class Origin:
    """What was asked for when an array was mapped, for who wants to read it again."""

    filename: Any
    offset: int
    mode: str


class Array(np.ndarray):
    """What ``tiermap.map()`` returns: an ndarray like any other, with a few methods more.

    Views of it are Arrays too, and keep the memory mapped; results of computations are plain arrays, or, of a class
    that is derived from this one or from ``tiermap.memmap``, of that class, as with ``numpy.memmap``. Rows picked by an
    array of integers or booleans are fetched many at a time before they are copied. Pickling one sends where its bytes
    are, not the bytes, unless only this process has them.

    Attributes
    ----------
    filename : str or object
        The absolute path, the URL or the store.
    offset : int
        Where the data begin in it, in bytes.
    mode : str
        ``r``, ``r+``, ``w+`` or ``c``.
    """

    _mapping: Optional[Mapping]
    _origin: Optional[Origin]
    #: Whether results, which are in memory, are plain arrays.
    _plain_results = True
    #: numpy.memmap's: what comes of one and of another kind of array is of that kind.
    __array_priority__ = -100.0

    def __init_subclass__(cls, plain_results: bool = False, **others: Any) -> None:
        super().__init_subclass__(**others)
        cls._plain_results = plain_results

    def __array_finalize__(self, template: Any) -> None:
        origin = template._origin if isinstance(template, Array) else None
        if origin is not None and not is_view(self, template):
            origin = None
        self._origin = origin
        self._mapping = template._mapping if origin is not None else None

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self or isinstance(array, Array) and array._origin is not None:
            return array
        if not self._plain_results:
            return super().__array_wrap__(array)
        plain = array.view(np.ndarray)
        # numpy 1 leaves it to this function to make numbers of arrays without dimensions.
        return plain[()] if return_scalar or (NUMPY_1 and plain.ndim == 0) else plain

    def __getitem__(self, index: Any) -> Any:
        if self._mapping is not None:
            rows = _gather.rows_meant(self, index)
            if rows is not None:
                return self._result(_gather.take(self, self._mapping, rows))
        return plain_unless_mapped(super().__getitem__(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        if self._mapping is not None:
            rows = _gather.rows_meant(self, index)
            if rows is not None:
                _gather.fetch_first(self, self._mapping, rows)
        super().__setitem__(index, value)

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """``numpy.ndarray.take``; along the first axis, rows are fetched many at a time."""
        along_rows = axis == 0 or axis is None and self.ndim == 1
        if self._mapping is not None and out is None and mode == "raise" and along_rows:
            picked = np.asarray(indices)
            # To take(), booleans are the numbers 0 and 1.
            rows = None if picked.dtype == np.bool_ else _gather.rows_meant(self, picked)
            if rows is not None:
                return self._result(_gather.take(self, self._mapping, rows))
        taken = np.asarray(self).take(indices, axis, out, mode)
        return self._result(taken) if out is None else plain_unless_mapped(taken)

    def __reduce_ex__(self, protocol: Any) -> Any:
        mapping = self._mapping
        if mapping is None or not is_sent_by_name(mapping):
            if self._plain_results:
                return self.view(np.ndarray).__reduce_ex__(protocol)
            return super().__reduce_ex__(protocol)  # Which calls __reduce__(), perhaps the user's.
        mapping.sync_range(0, mapping.size)
        # Where a view of no elements is may be outside.
        inner = _operations.address(self) - mapping.address if self.size > 0 else 0
        start = inner + mapping.recipe.offset
        return (from_pickle, (type(self), mapping, start, self.shape, self.strides, self.dtype, self.flags.writeable,
                              self._origin))

    def __reduce__(self) -> Any:
        if not self._plain_results and (self._mapping is None or not is_sent_by_name(self._mapping)):
            return super().__reduce__()
        return self.__reduce_ex__(2)

    def copy(self, order: Any = "C") -> Any:
        """A plain array with the same elements, in memory. For ``dask.array.from_array``, a view: see ``_dask.py``."""
        if self._mapping is not None and _dask.is_calling():
            _dask.tell_dask(type(self))
            return self.view()
        return self._result(np.asarray(self).copy(order))

    def _result(self, array: Any) -> Any:
        """An array in memory, or a number, as what came of this one."""
        return array if self._plain_results or not isinstance(array, np.ndarray) else super().__array_wrap__(array)

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """``numpy.ndarray.tofile``, by way of copies: there are machines on which a system call cannot be handed memory
        that is not there. ``numpy.save()`` calls it."""
        if self._mapping is None or sep != "":
            np.asarray(self).tofile(fid, sep, format)
        else:
            _operations.write_copies(self, fid)

    @property
    def filename(self) -> Any:
        return None if self._origin is None else self._origin.filename

    @property
    def offset(self) -> Any:
        return None if self._origin is None else self._origin.offset

    @property
    def mode(self) -> Any:
        return None if self._origin is None else self._origin.mode

    def flush(self) -> None:
        """Writes what is dirty in this array's part of the mapping, and makes it durable: ``tiermap.sync(self)``."""
        if self._mapping is not None:
            _operations.sync(self)

    def sync(self, progress: Optional[Callable[[int, int], object]] = None) -> None:
        """``tiermap.sync(self)``."""
        _operations.sync(self, progress)

    def drop(self) -> None:
        """``tiermap.drop(self)``."""
        _operations.drop(self)

    def prefetch(self, wait: bool = False, progress: Optional[Callable[[int, int], object]] = None) -> Any:
        """``tiermap.prefetch(self)``."""
        return _operations.prefetch(self, wait, progress)

    def blocks(self, size: Size = 16 * MIB, *, cache: bool = True,
               progress: Optional[Callable[[int, int], object]] = None) -> Iterator[Any]:
        """``tiermap.blocks(self)``."""
        return _operations.blocks(self, size, cache=cache, progress=progress)

    def advise(self, advice: str) -> None:
        """``tiermap.advise(self, advice)``."""
        _operations.advise(self, advice)

    def pin(self) -> Any:
        """``tiermap.pin(self)``."""
        return _operations.pin(self)

    def stats(self) -> Statistics:
        """``tiermap.stats(self)``."""
        return _operations.stats(self)


NUMPY_1 = np.lib.NumpyVersion(np.__version__) < "2.0.0"


def is_view(array: Any, template: Any) -> bool:
    """Whether an array that came out of a mapped one has its memory. Of no elements, numpy says that none shares it."""
    if array.size > 0:
        return np.may_share_memory(array, template)
    owner = _operations.owner_of(array)
    return owner is not None and owner is _operations.owner_of(template)


def is_sent_by_name(mapping: Mapping) -> bool:
    """Whether a pickle sends where its bytes are: what only this process has is sent by value, and so is that to which the
    name leads no more."""
    recipe = mapping.recipe
    return recipe.reopens and not recipe.private_copy and identity_of(recipe.source) == recipe.identity


def plain_unless_mapped(result: Any) -> Any:
    """A copy that came out of an Array is no Array, unless it is of a class of the user's."""
    if isinstance(result, Array) and result._origin is None and result._plain_results:
        return result.view(np.ndarray)
    return result


def attach(kind: type, mapping: Mapping, shape: Tuple[int, ...], dtype: np.dtype, start: int, *, order: str = "C",
           strides: Optional[Tuple[int, ...]] = None, writable: bool, origin: Origin) -> Any:
    """An array of ``kind`` on a mapping whose first element is at byte ``start`` of the store."""
    inner = start - mapping.recipe.offset
    array = array_in(mapping, kind, shape, dtype=dtype, offset=inner, strides=strides, order=order, writable=writable)
    array._mapping = mapping
    array._origin = origin
    return array


def attach_to_nothing(kind: type, statistics: Dict[str, Any], shape: Tuple[int, ...], dtype: np.dtype, *, order: str,
                      writable: bool, origin: Origin) -> Any:
    """An array of ``kind`` that has no elements, and so no mapping."""
    array = array_in(_operations.Nothing(statistics), kind, shape, dtype=dtype, order=order, writable=writable)
    array._origin = origin
    return array


def array_in(memory: Any, kind: type, shape: Tuple[int, ...], *, writable: bool, **layout: Any) -> Any:
    """An array in what speaks the buffer protocol. Without ``writable``, nobody makes it writable."""
    view = memoryview(memory)
    if not writable and not view.readonly:
        # numpy looks through a memoryview to what it is of, but not through an array of one.
        memory = np.frombuffer(view.toreadonly(), np.uint8)
    make: Any = np.ndarray.__new__
    return make(kind, shape, buffer=memory, **layout)


def from_pickle(kind: type, mapping: Mapping, start: int, shape: Tuple[int, ...], strides: Tuple[int, ...],
                dtype: np.dtype, writable: bool, origin: Origin) -> Any:
    """The same view of the same bytes where it arrives."""
    return attach(kind, mapping, shape, dtype, start, strides=strides, writable=writable and mapping.writable,
                  origin=origin)
