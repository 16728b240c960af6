"""memmap: numpy.memmap's arguments and habits on Tiermap's memory."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

import numpy as np

from tiermap._array import Array
from tiermap._cache import Cache
from tiermap._map import MODES, map_as
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


class memmap(Array):
    """``numpy.memmap`` under a memory budget: one import line changes a script.

    Parameters
    ----------
    filename : path, file object or URL
        As for ``numpy.memmap``; or a URL.
    dtype : dtype, optional
        ``uint8`` by default.
    mode : {'r+', 'r', 'w+', 'c'}, optional
        As for ``numpy.memmap``: ``w+`` replaces what exists, ``r+`` makes a file longer where the shape asks for it.
    offset : int, optional
        In bytes; any number.
    shape : int or tuple of int, optional
        All there is by default.
    order : {'C', 'F'}, optional
        Of the elements in the file.
    budget, page_size, cache, read_ahead, advice
        As for ``tiermap.map``.

    Attributes
    ----------
    filename, offset, mode
        As given, ``filename`` absolute.

    Notes
    -----
    What differs: a header is never looked for, whatever the name; writes reach other programs that read the file when
    they are flushed, or when the last view is gone, not at once.
    """

    def __new__(subtype, filename: Any, dtype: Any = np.uint8, mode: str = "r+", offset: int = 0, shape: Any = None,
                order: str = "C", *, budget: Optional[Size] = None, page_size: Union[Size, None] = "auto",
                cache: Union[Cache, bool, None] = None, read_ahead: Optional[Size] = None,
                advice: str = "normal") -> Any:
        if hasattr(filename, "read") and hasattr(filename, "name"):
            if hasattr(filename, "flush"):
                filename.flush()
            filename = path_of_file(filename)
        if MODES.get(mode) == "w+" and shape is None:
            raise ValueError("shape must be given if mode == 'w+'")
        return map_as(subtype, filename, dtype, shape, mode, budget, page_size, offset=offset, order=order,
                      format="raw", cache=cache, read_ahead=read_ahead, advice=advice, overwrite=True, start="fork",
                      extend=True)
