"""What can be said about mapped arrays, and about plain views of them."""

from __future__ import annotations

import contextlib
import os
from operator import index
from typing import Any, Callable, Dict, Iterator, Optional, Tuple, Union

import numpy as np

from tiermap import _core
from tiermap._mapping import Mapping, pieces
from tiermap._page_size import MIB, Size, check_word, in_a_line, parse_size
from tiermap._statistics import Statistics, rounded

Progress = Callable[[int, int], object]
ADVICE = ("normal", "sequential", "random", "will_need", "dont_need", "cold", "hot")


class Nothing(bytearray):
    """Memory of a mapped array that has no elements, where there is no mapping: its views are known by it."""

    def __init__(self, statistics: Dict[str, Any]) -> None:
        super().__init__(1)  # numpy.frombuffer() wants some.
        self.statistics = statistics


class NothingToFetch:
    """What ``prefetch()`` of an array without elements returns."""

    done = True

    def wait(self) -> int:
        return 0


def owner_of(array: Any) -> Union[Mapping, Nothing, None]:
    """What an array's memory belongs to, whatever views lie between; None if nothing of Tiermap's."""
    found = array
    while found is not None:
        if isinstance(found, (Mapping, Nothing)):
            return found
        found = found.obj if isinstance(found, memoryview) else getattr(found, "base", None)
    return None


def owner_known(array: Any) -> Union[Mapping, Nothing]:
    """owner_of(), and TypeError if there is none."""
    owner = owner_of(array)
    if owner is None:
        raise TypeError(f"{type(array).__name__} is not mapped: give what tiermap.map() returned, or a view of it")
    return owner


def address(array: Any) -> int:
    """Of the first element."""
    return int(array.__array_interface__["data"][0])


def as_array(mapped: Any) -> Any:
    """What has an owner, where it is an array or a memoryview of one, and TypeError if not."""
    array = np.asarray(mapped) if isinstance(mapped, memoryview) else mapped
    if not isinstance(array, np.ndarray):  # An iterator over one has a base, too.
        raise TypeError(f"{type(array).__name__} is no array: give what tiermap.map() returned, or a view of it")
    return array


def extent(array: Any) -> Optional[Tuple[Mapping, int, int]]:
    """The mapping of an array, and where its bytes are in it: offset and count. None if it has no elements.

    Raises
    ------
    TypeError
        If it is not mapped.
    ValueError
        If it begins before the mapping, as what as_strided() made may.
    """
    mapping = owner_known(array)
    array = as_array(array)
    if isinstance(mapping, Nothing) or array.size == 0:
        return None
    low = high = address(array)
    for length, stride in zip(array.shape, array.strides):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    if low < mapping.address:
        raise ValueError(f"the array begins {mapping.address - low} bytes before what is mapped: choose a part inside")
    return mapping, low - mapping.address, high + array.itemsize - low


def drop(array: Any) -> None:
    """Gives the memory of an array back, without closing it.

    What is dirty is written first. The next access reads it again. Whole pages go, so a little of what lies beside it
    may go too.

    Parameters
    ----------
    array : numpy.ndarray
        A mapped array or a view of one.

    Raises
    ------
    TypeError
        If it is not mapped.
    """
    part = extent(array)
    if part is not None:
        mapping, offset, count = part
        mapping.advise("dont_need", offset, count)


def sync(array: Any, progress: Optional[Progress] = None) -> None:
    """Writes back what is dirty in an array and makes it durable.

    Parameters
    ----------
    array : numpy.ndarray
        A mapped array or a view of one.
    progress : callable, optional
        Called with the bytes done and the bytes of all, after every 64 MiB.

    Raises
    ------
    OSError
        If something could not be written. It stays in memory and changed: free the cause, and sync again.
    """
    part = extent(array)
    if part is not None:
        mapping, offset, count = part
        mapping.sync_range(offset, count, progress)


def flush(array: Any) -> None:
    """Starts to write back what is dirty in an array, and does not wait."""
    part = extent(array)
    if part is not None and part[0].writes_to_store:
        mapping, offset, count = part
        mapping.flush(offset, count)


def prefetch(array: Any, wait: bool = False, progress: Optional[Progress] = None) -> Any:
    """Starts to fetch an array in the background, as far as three quarters of the budget hold it.

    Parameters
    ----------
    array : numpy.ndarray
        A mapped array or a view of one.
    wait : bool, optional
        Wait until all has come.
    progress : callable, optional
        Called with the bytes done and the bytes of all, after every 64 MiB; implies ``wait``.

    Returns
    -------
    Prefetch
        With ``wait()``, which gives the pages in memory, and ``done``. In a forked child it is done, and has fetched
        none.
    """
    part = extent(array)
    if part is None:
        return NothingToFetch()
    mapping, offset, count = part
    if progress is None:
        started = mapping.prefetch([(offset, count)])
        if wait:
            started.wait()
        return started
    started = mapping.prefetch([])
    for start, piece in pieces(offset, count):
        started = mapping.prefetch([(start, piece)])
        started.wait()
        progress(start - offset + piece, count)
    return started


def advise(array: Any, advice: str) -> None:
    """Says how an array will be used.

    Parameters
    ----------
    array : numpy.ndarray
        A mapped array or a view of one.
    advice : str
        ``normal``, ``sequential`` or ``random``, which hold for the whole mapping until the next of them; or, done once
        to the array's part, ``will_need``, ``dont_need``, ``cold`` or ``hot``.
    """
    check_word(advice, ADVICE, "advice", f"from {', '.join(ADVICE)}")
    part = extent(array)
    if part is not None:
        mapping, offset, count = part
        mapping.advise(advice, offset, count)


class Pin:
    """Keeps an array in memory until ``release()``, the end of a ``with`` block, or its own end."""

    def __init__(self, array: Any) -> None:
        part = extent(array)
        self._held = False
        self._process = os.getpid()
        if part is not None:
            self._mapping, self._offset, self._count = part
            with self._mapping.telling_of_store():
                self._mapping.pin(self._offset, self._count)
            self._held = True

    def release(self) -> None:
        """Once; after that it does nothing, nor in a forked child, whose arrays are not pinned."""
        if self._held:
            self._held = False
            if os.getpid() != self._process:
                return
            self._mapping.unpin(self._offset, self._count)

    def __enter__(self) -> Pin:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_held", False):
            try:
                self.release()
            except (OSError, ValueError):  # Nobody is there to be told.
                pass


def pin(array: Any) -> Pin:
    """Fetches an array and keeps it in memory.

    Returns
    -------
    Pin
        Keep it as long as the array is to stay, or use it in a ``with`` statement.

    Raises
    ------
    OSError
        ENOMEM, and nothing is pinned, if the budget cannot hold it; EIO if the store fails.
    """
    return Pin(array)


def unpin(held: Pin) -> None:
    """``held.release()``."""
    if not isinstance(held, Pin):
        raise TypeError(f"{type(held).__name__} is no pin: give what tiermap.pin() returned")
    held.release()


def stats(array: Any) -> Statistics:
    """What the mapping of an array did so far.

    Returns
    -------
    Statistics
        A dictionary that shows itself as a table in notebooks.
    """
    mapping = owner_known(array)
    if isinstance(mapping, Nothing):
        statistics = Statistics(mapping.statistics)
        statistics.title = "Tiermap, no elements"
        return statistics
    statistics = Statistics(mapping.statistics())
    statistics.title = f"Tiermap {rounded(mapping.size)} in pages of {_core.format_size(mapping.page_size)}"
    return statistics


def blocks(array: Any, size: Size = 16 * MIB, *, cache: bool = True,
           progress: Optional[Progress] = None) -> Iterator[Any]:
    """Goes over an array once, in order: views of ``size`` bytes along the first axis, the next on its way.

    Parameters
    ----------
    array : numpy.ndarray
        A mapped array or a view of one, in C order.
    size : int or str, optional
        Bytes of a block, at least one row.
    cache : bool, optional
        False gives the memory of each block back when the next is asked for: do not keep the views then.
    progress : callable, optional
        Called with the rows done and the rows of all, after each block.

    Yields
    ------
    numpy.ndarray
        ``array[first:end]``.

    Raises
    ------
    ValueError, TypeError
        At once, for what cannot be gone over.
    """
    owner_known(array)
    array = as_array(array)
    block_bytes = parse_size(size, "size of a block")
    if array.size == 0:
        return iter(())
    if array.ndim == 0:
        raise ValueError("an array of no dimension has no blocks: take its one element, or reshape(1) it")
    return views_in_order(array, block_bytes, cache, progress)


def views_in_order(array: Any, block_bytes: int, cache: bool, progress: Optional[Progress]) -> Iterator[Any]:
    rows = len(array)
    row_bytes = max(array.nbytes // max(rows, 1), 1)
    step = max(block_bytes // row_bytes, 1)
    for first in range(0, rows, step):
        block = array[first:first + step]
        following = array[first + step:first + 2 * step]
        if following.size > 0:
            prefetch(following)
        yield block
        if not cache:
            drop(block)
        if progress is not None:
            progress(min(first + step, rows), rows)


def write_copies(array: Any, file: Any) -> None:
    """Writes an array in C order to a file that is open, or that a path names."""
    with contextlib.ExitStack() as opened:
        if not hasattr(file, "write"):
            file = opened.enter_context(open(file, "wb"))
        for block in blocks(array.reshape(-1) if array.flags.c_contiguous else array):
            np.array(block, order="C").tofile(file)


def shape_of(shape: Any) -> Tuple[int, ...]:
    """A shape as numpy takes it: a number or a sequence of them, none negative."""
    made: Tuple[int, ...]
    try:
        made = (index(shape),)
    except TypeError:
        try:
            made = tuple(index(length) for length in shape)
        except TypeError:
            raise TypeError(f"shape {in_a_line(shape)} is no shape: give a whole number, or a tuple of them such as "
                            "(1000, 64)") from None
    if any(length < 0 for length in made):
        raise ValueError(f"shape {made} has a negative length: leave the shape out to take all there is")
    return made
