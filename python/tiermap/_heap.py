"""open_heap(): what C++ programs have stored in a ``tiermap::Heap``, for reading."""

from __future__ import annotations

import errno
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from tiermap import _core, _dask, _finding, _mapping
from tiermap._array import Array
from tiermap._cache import Cache
from tiermap._heap_types import layout_of
from tiermap._heap_values import Contents, HeapObject
from tiermap._location import HeapPlace, absolute, key_of
from tiermap._map import cache_for, check_options, checked_dtype
from tiermap._mapping import Mapping, Recipe
from tiermap._page_size import Size, parse_page_size, parse_size


def open_heap(path: Any, budget: Optional[Size] = None, *, page_size: Optional[Size] = None,
              cache: Union[Cache, bool, None] = None, read_ahead: Optional[Size] = None,
              advice: str = "normal") -> Heap:
    """Opens a heap that C++ programs have written, for reading.

    Any number of processes may have it open like this at once, and no writer beside them.

    Parameters
    ----------
    path : path
        The heap's directory.
    budget : int or str, optional
        Memory for this heap alone, as in ``tiermap.map()``. Without it, and without ``cache``, it shares
        ``tiermap.default_cache()``.
    page_size : int or str, optional
        A power of two from 4 KiB to 64 MiB. By default what the heap was made with.
    cache : Cache or False, optional
        The cache to share, as in ``tiermap.map()``.
    read_ahead : int or str, optional
        Most that is read ahead of one stream; 0 turns it off.
    advice : str, optional
        ``normal``, ``sequential``, ``random``, or ``will_need`` to start fetching all of it.

    Returns
    -------
    Heap
        Open until its ``close()``, the end of a ``with`` block, or its own end. The heap's files stay locked against
        writers until the last array made from it has gone, too.

    Raises
    ------
    OSError
        FileNotFoundError; EBUSY, if a writer has it; EUCLEAN, if it was written without checkpoints and not closed;
        EINVAL for what is no heap, is damaged, or has the layout of another version.
    ValueError
        For options that cannot be.

    Examples
    --------
    >>> with tiermap.open_heap("weather.heap", budget="1GiB") as heap:
    ...     print(list(heap), heap["degrees"].mean())
    """
    return Heap(path, budget, page_size=page_size, cache=cache, read_ahead=read_ahead, advice=advice)


class Heap:
    """A ``tiermap::Heap`` as it was when a C++ program closed it or took its last checkpoint; ``open_heap()`` makes it.

    ``heap[name]`` is what the object of that name holds: a read-only numpy array on the heap's own memory, or a str for
    a ``HeapString``. ``len()``, ``in`` and iteration deal with names, in order. Nothing can be changed. All methods may
    be called from any thread.
    """

    def __init__(self, path: Any, budget: Optional[Size] = None, *, page_size: Optional[Size] = None,
                 cache: Union[Cache, bool, None] = None, read_ahead: Optional[Size] = None,
                 advice: str = "normal") -> None:
        self._contents: Optional[Contents] = None
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"{type(path).__name__} names no heap: give the path of its directory")
        if not os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, "'' names no heap: give the path of its directory")
        self._path = absolute(os.fsdecode(path).rstrip("/") or "/")
        check_options(page_size, read_ahead, advice, "fork")
        heap = _core.Heap(self._path)
        serving, asked_for = cache_for(cache, budget)
        if heap.in_journal and serving.fault_mode == "kernel":
            raise OSError(errno.ENOTSUP, f"heap {self._path} was left by a crash, and some of its last checkpoint is "
                                         "in its journal, which fault mode kernel cannot map: choose another fault "
                                         "mode, or open and close it for writing once")
        if cache is False:
            advice = "sequential" if advice == "normal" else advice
        if "dask.base" in sys.modules:
            _dask.tell_dask(Array)
        self._objects = [object_of(record) for record in heap.objects()]
        self._by_name: Dict[str, HeapObject] = {found.name: found for found in self._objects if not found.unique}
        place = HeapPlace(self._path, heap.identity, heap.generation)
        recipe = Recipe(source=place, key=key_of(place), writable=False, private_copy=False, offset=heap.data_offset,
                        length=heap.used_bytes, page_size=heap.page_size if page_size is None else
                        parse_page_size(page_size),
                        read_ahead=None if read_ahead is None else parse_size(read_ahead, "read ahead"), advice=advice)
        self._contents = Contents(self._path, heap, mapping_for(recipe, heap, serving, asked_for))

    @property
    def path(self) -> str:
        """Of its directory, absolute."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._contents is None

    def close(self) -> None:
        """Nothing more is taken from it. Arrays that live stay usable, and keep the heap locked until they go."""
        self._contents = None

    def __enter__(self) -> Heap:
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        self._open()
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        self._open()
        return iter(list(self._by_name))

    def __contains__(self, name: object) -> bool:
        self._open()
        return name in self._by_name

    def __getitem__(self, name: Union[str, HeapObject]) -> Any:
        """``array(name)``; a str for a HeapString, and a list of them for several side by side.

        Raises
        ------
        KeyError
            If there is no object of that name.
        TypeError
            If numpy has no type for it.
        OSError
            EINVAL, if it leads where it cannot.
        """
        return self._open().value(self._found(name))

    def array(self, name: Union[str, HeapObject], dtype: Any = None) -> Any:
        """The numbers of an object, as they lie in the heap: nothing is copied.

        Parameters
        ----------
        name : str or HeapObject
            Of a number, a ``std::array`` or a ``std::pair`` of numbers, several of these side by side, or a
            ``HeapVector`` or ``std::vector`` of these.
        dtype : dtype, optional
            For what numpy has no type for, a structured one: ``numpy.dtype([("minute", "u8"), ("degrees", "f8")],
            align=True)``. What it describes has to be trivially copyable in C++. Its itemsize has to be the sizeof;
            of a vector's elements that is known only as far as their block tells.

        Returns
        -------
        Array
            Read-only; an ``ndarray`` like those of ``tiermap.map()``, and usable after ``close()``. One object has its
            own shape, none for a number; several side by side have one dimension before that. Of several vectors side
            by side, a list.

        Raises
        ------
        KeyError
            If there is no object of that name.
        TypeError
            If numpy has no type for it; the message names the type.
        ValueError
            If the dtype does not fit.
        OSError
            EINVAL, if a vector leads where none of its elements can be: the heap is damaged.
        """
        return self._open().array(self._found(name), None if dtype is None else checked_dtype(dtype))

    def bytes(self, name: Union[str, HeapObject]) -> Any:
        """The bytes of any object as a read-only array of uint8. A vector's are its header, not its elements."""
        return self._open().bytes_of(self._found(name))

    def objects(self) -> List[HeapObject]:
        """All that have names, in their order, then the unique ones. Each may be given in place of a name."""
        self._open()
        return list(self._objects)

    def warnings(self) -> List[str]:
        """What was noticed that is no error, a line each."""
        contents = self._open()
        lines = []
        if not contents.heap.closed:
            lines.append(f"heap {self._path} was not closed: this is its last checkpoint")
        for found in self._objects:
            try:
                contents.check_size(found, layout_of(found.type))
            except TypeError as error:
                lines.append(str(error))
        return lines

    def __repr__(self) -> str:
        if self._contents is None:
            return f"<tiermap.Heap {self._path}, closed>"
        return f"<tiermap.Heap {self._path}, {len(self._objects)} objects, {self._contents.mapping.size >> 10} KiB>"

    def __reduce__(self) -> Any:
        raise TypeError(f"heap {self._path} cannot be pickled: send arrays of it, or its path")

    def _open(self) -> Contents:
        if self._contents is None:
            raise ValueError(f"heap {self._path} is closed: open it again")
        return self._contents

    def _found(self, name: Union[str, HeapObject]) -> HeapObject:
        if isinstance(name, HeapObject):
            if name not in self._objects:
                raise KeyError(f"heap {self._path} has no {name.title}: take one of its own objects()")
            return name
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is no name of an object: give a str, or one of objects()")
        found = self._by_name.get(name)
        if found is None:
            raise KeyError(f"heap {self._path} has no object {name!r}: list(heap) has their names")
        return found


def object_of(record: Tuple[bytes, bool, bytes, int, int, int, int, bytes]) -> HeapObject:
    """What the extension module tells of an object. Names are any bytes, mostly UTF-8."""
    name, unique, type_name, number, itemsize, alignment, offset, description = record
    return HeapObject(name=text(name), type=text(type_name), number=number, itemsize=itemsize, alignment=alignment,
                      offset=offset, description=text(description), unique=unique)


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def mapping_for(recipe: Recipe, heap: _core.Heap, cache: Cache, asked_for: bool) -> Mapping:
    """The mapping of this process that has this heap, or a new one."""
    with _finding.finding(recipe.source, False):
        known = _mapping.find(recipe.source, recipe.key, recipe.offset, recipe.length, False,
                              cache if asked_for else None)
        return Mapping(cache, heap.store, recipe) if known is None else known
