"""memmap: numpy.memmap's arguments and habits on Tiermap's memory."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib
from dataclasses import replace
from typing import Any, Optional, Type, TypeVar, Union

import numpy as np

from tiermap._array import Array
from tiermap._cache import Cache
from tiermap._map import MODES, known_dtype, map_as
from tiermap._page_size import Size


def path_of_file(file: Any) -> str:
    """A path that leads to an open file: its name's, or, where it has none any more, its descriptor's."""
    if isinstance(file.name, (str, bytes)):
        path = os.path.abspath(os.fsdecode(file.name))
        try:
            if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                return path
        except OSError:
            pass
    return f"/proc/self/fd/{file.fileno()}"


def name_of_file(file: Any) -> Optional[str]:
    """What numpy says of an open file, whether or not it still has that name; None of one that was opened without."""
    return os.path.abspath(file.name) if isinstance(file.name, str) else None


def check_access(file: Any, mode: str) -> None:
    """That what is asked of its memory may be done to an open file, which is then mapped by its name.

    Raises
    ------
    PermissionError
        As numpy does.
    """
    access = fcntl.fcntl(file.fileno(), fcntl.F_GETFL) & os.O_ACCMODE
    if mode in ("r+", "w+") and access != os.O_RDWR:
        raise PermissionError(errno.EACCES, "the file object is not open for reading and writing, and mode "
                                            f"{mode} does both: open it with 'r+b', or give mode='r'")
    if access == os.O_WRONLY:
        raise PermissionError(errno.EACCES, f"the file object is not open for reading, and mode {mode} reads: open it "
                                            "with 'rb' or 'r+b'")


def order_in_file(order: Any) -> Any:
    """C or F, where numpy takes more: of a file, "any" and "as it is" are C."""
    said = order.upper() if isinstance(order, str) else order
    return "C" if said in ("A", "K", None) else said


Kind = TypeVar("Kind", bound="memmap")


class memmap(Array, plain_results=True):
    """``numpy.memmap`` under a memory budget: one import line changes a script.

    Parameters
    ----------
    filename : path, file object or URL
        As for ``numpy.memmap``; or a URL. A file object has to be open for what the mode does.
    dtype : dtype, optional
        ``uint8`` by default; None is ``float64``, as everywhere in numpy.
    mode : {'r+', 'r', 'w+', 'c'}, optional
        As for ``numpy.memmap``: ``w+`` replaces what exists (not what an open file has, which only grows), ``r+``
        makes a file longer where the shape asks for it.
    offset : int, optional
        In bytes; any number.
    shape : int or tuple of int, optional
        All there is by default.
    order : {'C', 'F', 'A', 'K'}, optional
        Of the elements in the file; ``A`` and ``K`` are ``C``.
    budget, page_size, cache, read_ahead, advice
        As for ``tiermap.map``.

    Attributes
    ----------
    filename, offset, mode
        As given, ``filename`` absolute: a ``pathlib.Path`` without links where one was given, else a ``str``; None of
        an open file that has no name.

    Notes
    -----
    What differs: a header is never looked for, whatever the name; unless several processes have the file mapped, writes
    reach other programs when they are flushed, or when the last view is gone, not at once, and those that were not are
    lost if the script is killed by SIGKILL or crashes; a length of -1 is refused in every mode; a file that is mapped
    without elements stays as long as it was.
    """

    def __new__(subtype: Type[Kind], filename: Any, dtype: Any = np.uint8, mode: str = "r+", offset: int = 0,
                shape: Any = None, order: str = "C", *, budget: Optional[Size] = None,
                page_size: Union[Size, None] = "auto", cache: Union[Cache, bool, None] = None,
                read_ahead: Optional[Size] = None, advice: str = "normal") -> Kind:
        if mode == "w":  # Of map(), which asks before it replaces what exists.
            raise ValueError("mode 'w' is none of numpy.memmap's: choose w+, which replaces what exists, or r, r+ or c")
        asked = MODES.get(mode, mode)
        if asked == "w+" and shape is None:
            raise ValueError("shape must be given if mode == 'w+'")
        mode = asked
        given = filename
        if hasattr(filename, "read") and hasattr(filename, "name"):
            check_access(filename, asked)
            if hasattr(filename, "flush"):
                filename.flush()
            filename = path_of_file(filename)
            mode = "r+" if asked == "w+" else asked  # What is open is not emptied.
        array = map_as(subtype, filename, known_dtype(dtype), shape, mode, budget, page_size, offset=offset,
                       order=order_in_file(order), format="raw", cache=cache, read_ahead=read_ahead, advice=advice,
                       overwrite=True, start="fork", as_numpy=True)
        array._origin = replace(array._origin, mode=asked)
        if isinstance(given, os.PathLike):
            array._origin = replace(array._origin, filename=pathlib.Path(os.fsdecode(given)).resolve())
        elif filename is not given:
            array._origin = replace(array._origin, filename=name_of_file(given))
        made: Kind = array
        return made
