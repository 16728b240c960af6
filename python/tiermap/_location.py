"""What names the data: a path, a URL, a heap, or a store written in Python."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Any, Optional, Tuple

from tiermap import _core

SCHEME = re.compile(r"^(file|sparse|concat|memory):", re.IGNORECASE)


@dataclass(frozen=True)
class HeapPlace:
    """A heap in one of its states: whoever opens it again finds that or nothing."""

    path: str  # Absolute.
    identity: int
    generation: int

    def open(self) -> _core.Heap:
        """Opened anew, for reading.

        Raises
        ------
        OSError
            ESTALE, if it has been changed; and what else opening a heap raises.
        """
        heap = _core.Heap(self.path)
        if (heap.identity, heap.generation) != (self.identity, self.generation):
            raise OSError(errno.ESTALE, f"heap {self.path} has been changed since an array of it was sent: open it "
                                        "with tiermap.open_heap(), or keep the array while others are to find it")
        return heap


def source_of(where: Any) -> Any:
    """A path made absolute, a URL as it is, or a store written in Python as it is.

    Raises
    ------
    TypeError
        For anything else.
    """
    if hasattr(where, "read_into") and hasattr(where, "size"):
        return where
    if isinstance(where, os.PathLike):
        where = os.fspath(where)
        return os.path.abspath(os.fsdecode(where))
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    if not isinstance(where, str):
        raise TypeError(f"{type(where).__name__} names no data: give a path, a URL, or an object with size and "
                        "read_into(offset, buffer)")
    return where if SCHEME.match(where) else os.path.abspath(where)


def path_of(source: Any) -> Optional[str]:
    """The file that a source is; None for what is no single plain file."""
    if not isinstance(source, str):
        return None
    if source.startswith("/"):
        return source
    match = re.match(r"^file:(//)?(/?[^?]*)", source, re.IGNORECASE)
    if match is None or any(character in match.group(2) for character in "*[%?"):
        return None
    return os.path.abspath(match.group(2))


def is_npy(source: Any) -> bool:
    """Whether the name says that it begins with a .npy header."""
    path = path_of(source)
    return path is not None and path.endswith(".npy")


def key_of(source: Any) -> Tuple[Any, ...]:
    """Equal for two names of the same bytes, as far as can be told."""
    if isinstance(source, HeapPlace):
        return ("heap", source)
    if not isinstance(source, str):
        return ("object", id(source))
    path = path_of(source)
    if path is None:
        # Each memory: is another.
        return ("url", source) if not source.lower().startswith("memory:") else ("memory", object())
    try:
        status = os.stat(path)
    except OSError:
        return ("url", path)
    return ("file", status.st_dev, status.st_ino)


def reopens(source: Any) -> bool:
    """Whether another process that opens it sees the same bytes."""
    return not (isinstance(source, str) and source.lower().startswith("memory:"))


def name_of(source: Any) -> str:
    """For messages."""
    if isinstance(source, HeapPlace):
        return f"heap {source.path}"
    return source if isinstance(source, str) else type(source).__name__
