"""What names the data: a path, a URL, a heap, or a store written in Python."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from tiermap import _core, _store_url

#: In nanoseconds, as time stamps are.
SECOND = 1_000_000_000
#: The longest of kernels' clocks.
CLOCK_TICK = 20_000_000


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
    """A path or a URL made absolute, or a store written in Python as it is.

    Raises
    ------
    TypeError
        For anything else.
    ValueError
        For a URL of no store there is.
    FileNotFoundError
        For a text without a character, which would be the working directory.
    NotADirectoryError
        For a path that ends as a directory's does, where there is none.
    """
    if hasattr(where, "read_into") and has_size(where):
        if isinstance(where, type):
            raise TypeError(f"{where.__name__} is a class, and no store: give an object of it, {where.__name__}()")
        return where
    if isinstance(where, os.PathLike):
        return absolute(os.fsdecode(os.fspath(where)))
    if isinstance(where, bytes):
        where = os.fsdecode(where)
    if not isinstance(where, str):
        raise TypeError(f"{type(where).__name__} names no data: give a path, a URL, or an object with size and "
                        "read_into(offset, buffer)")
    if not where:
        raise FileNotFoundError(errno.ENOENT, "'' names no data: give a path or a URL")
    if _store_url.parse(where) is None:
        if (scheme := _store_url.unknown_scheme(where)) is not None:
            raise ValueError(f"scheme {scheme!r} of {where} is unknown: choose among {', '.join(_store_url.SCHEMES)}; "
                             f"for a file of that name give './{where}'")
        return absolute(where)
    behind = _store_url.behind_npy(where)
    if behind is not None:
        return source_of(behind)
    where = _store_url.made_absolute(where)
    return _store_url.as_file(where) if _store_url.is_npy(where) else where


def absolute(path: str) -> str:
    """A path from the root that leads to what open() would find now, also where ``..`` stands behind a link."""
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, f"{path} ends as a directory's path does, and there is none: give "
                                                    "a file's path, without a slash at its end")
        return os.path.realpath(path)
    if ".." not in folder.split("/"):
        return os.path.abspath(path)
    if not os.path.isdir(folder):
        return os.path.join(os.getcwd(), path)  # Who opens it says what is missing.
    return os.path.join(os.path.realpath(folder), name)


def has_size(where: Any) -> bool:
    """Also if it is a property of what is not open yet, which cannot be asked for it here."""
    return hasattr(type(where), "size") or hasattr(where, "size")


def path_of(source: Any) -> Optional[str]:
    """The file that a source is; None for what is no single plain file."""
    if not isinstance(source, str):
        return None
    if source.startswith("/"):
        return source
    url = _store_url.parse(source)
    if url is None or url.scheme != "file" or not url.is_here or _store_url.is_pattern(url.pieces[0]):
        return None
    return _store_url.decoded(url.pieces[0])


def is_npy(where: Any, source: Any) -> bool:
    """Whether the name, as it was given and made absolute, says that it begins with a .npy header."""
    if isinstance(where, (str, bytes)) and _store_url.is_npy(os.fsdecode(where)):
        return True
    path = path_of(source)
    if path is None and isinstance(source, str):
        url = _store_url.parse(source)
        path = url.pieces[0] if url is not None and url.scheme == "s3" else None
    return path is not None and path.endswith(".npy")


def key_of(source: Any) -> Tuple[Any, ...]:
    """Equal for two names of the same bytes, as far as can be told."""
    if isinstance(source, HeapPlace):
        return ("heap", source)
    if not isinstance(source, str):
        return ("object", id(source))
    path = path_of(source)
    if path is None:
        url = _store_url.parse(source)
        if url is None or not reopens(source):  # Each memory: is another, and so is what is temporary.
            return ("memory", object())
        return ("url", url.scheme, *url.names())
    try:
        status = os.stat(path)
    except OSError:
        return ("url", path)
    return ("file", status.st_dev, status.st_ino)


def files_of(source: Any) -> List[str]:
    """The files and directories that a path or URL names now; none of what has a check of its own, or no name."""
    if not isinstance(source, str) or not reopens(source):
        return []
    path, url = path_of(source), _store_url.parse(source)
    return [path] if path is not None else [] if url is None else url.files()


def identity_of(source: Any) -> str:
    """Equal for the same files on the same machine: a name may lead to others later. Empty where there are none."""
    numbers: List[Tuple[int, int]] = []
    for path in files_of(source):
        try:
            status = os.stat(path)
            numbers.append((status.st_dev, status.st_ino))
        except OSError:  # Of a missing one, opening it says so.
            numbers.append((0, 0))
    return hashlib.blake2b(repr(numbers).encode(), digest_size=16).hexdigest() if numbers else ""


def state_of(source: Any) -> Tuple[Any, ...]:
    """Another one once what a source names has been changed, as far as the files' time stamps tell."""
    states: List[Tuple[int, ...]] = []
    for path in files_of(source):
        try:
            status = os.stat(path)
            states.append((status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        except OSError:
            states.append(())
    return tuple(states)


def tells_of_changes(state: Tuple[Any, ...]) -> bool:
    """Whether a change from now on gives another state: file systems count time in ticks, some of two seconds."""
    now = time.time_ns()
    return all(now - changed > (0 if changed % SECOND else 2 * SECOND) + CLOCK_TICK
               for changed in (numbers[-1] for numbers in state if numbers))


def check_identity(source: Any, identity: str) -> None:
    """That a name leads where it led.

    Raises
    ------
    OSError
        ESTALE, if it does not.
    """
    if identity_of(source) != identity:
        raise OSError(errno.ESTALE, f"{name_of(source)} is not what was mapped under this name any more: it was "
                                    "replaced or renamed, or its descriptor closed; map what is there now")


def machine() -> str:
    """Of which numbers of devices and files hold: this one, since it was started."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return os.uname().nodename


def reopens(source: Any) -> bool:
    """Whether another process that opens it sees the same bytes."""
    if not isinstance(source, str):
        return True
    url = _store_url.parse(source)
    if url is not None and url.behind:
        return reopens(url.behind)
    if url is not None and url.scheme == "remote" and ("temporary", "true") in url.options:
        return False
    return not source.lower().startswith("memory:")


def name_of(source: Any) -> str:
    """For messages."""
    if isinstance(source, HeapPlace):
        return f"heap {source.path}"
    return source if isinstance(source, str) else type(source).__name__
