"""Picking rows: their pages are fetched many at a time, where touching them in turn would wait for each.

A thread that touches a page which is not there waits for it alone, so a gather would have one read in flight. Here the
pages of the next rows are asked for while those of the last are copied.
"""

from __future__ import annotations

from typing import Any, Iterator, Optional, Tuple

import numpy as np

from tiermap import _operations
from tiermap._mapping import Mapping

#: Fewer rows than this are not worth a message to another thread.
FEWEST_ROWS = 4
#: Rows fetched at once, at most: some thousand requests keep any disk busy.
MOST_ROWS = 2048


def rows_meant(array: Any, index: Any) -> Optional[np.ndarray]:
    """The rows that an index picks, as int64 in order; None where it is not an index that picks whole rows.

    Also None where numpy is to say that it is wrong, or where rows do not lie one after the other.
    """
    if type(index) not in (np.ndarray, list) or array.ndim == 0:
        return None
    if type(index) is list and not (index and isinstance(index[0], (int, np.integer))):
        return None
    rows = np.asarray(index)
    if rows.ndim != 1 or len(rows) < FEWEST_ROWS or not in_rows(array):
        return None
    count = array.shape[0]
    if rows.dtype == np.bool_:
        return np.flatnonzero(rows) if len(rows) == count else None
    if rows.dtype.kind not in "iu":
        return None
    if rows.dtype == np.uint64 and rows.max() > np.iinfo(np.int64).max:
        return None
    rows = rows.astype(np.int64, copy=False)
    least, most = rows.min(), rows.max()
    if least < -count or most >= count:
        return None
    if least < 0:
        rows = np.where(rows < 0, rows + count, rows)
    return np.ascontiguousarray(rows)


def in_rows(array: Any) -> bool:
    """Whether each row is one piece of memory, and the next is behind it."""
    expected = array.itemsize
    for length, stride in zip(array.shape[:0:-1], array.strides[:0:-1]):
        if length != 1 and stride != expected:
            return False
        expected *= length
    return bool(expected > 0 and array.strides[0] >= expected)


def all_in_memory(mapping: Mapping) -> bool:
    return mapping.resident_bytes >= mapping.size


def batches(array: Any, mapping: Mapping, rows: np.ndarray) -> Iterator[Tuple[int, int]]:
    """Stretches of ``rows``, each yielded when its pages have come and those of the next are on their way."""
    row_bytes = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    # Pages of three stretches are in memory at once: together a quarter of the budget.
    pages_a_row = (row_bytes - 1) // mapping.page_size + 2
    room = mapping.cache.budget // 12 // (pages_a_row * mapping.page_size)
    step = max(1, min(MOST_ROWS, room))
    start = _operations.address(array) - mapping.address
    stride = array.strides[0]

    def ask(first: int) -> Any:
        return mapping.prefetch_rows(start, stride, row_bytes, rows[first:first + step])

    under_way = ask(0)
    for first in range(0, len(rows), step):
        end = min(first + step, len(rows))
        coming = ask(end) if end < len(rows) else None
        under_way.wait()
        yield first, end
        under_way = coming


def take(array: Any, mapping: Mapping, rows: np.ndarray) -> np.ndarray:
    """``array[rows]`` as a plain array."""
    plain: np.ndarray = array.view(np.ndarray)
    if len(rows) == 0 or all_in_memory(mapping):
        picked: np.ndarray = plain[rows]
        return picked
    result = np.empty((len(rows), *array.shape[1:]), array.dtype)
    # take() is quicker, and makes a copy of the whole array where it is not like this.
    can_be_taken = plain.flags.c_contiguous and plain.flags.aligned and plain.dtype.isnative
    for first, end in batches(array, mapping, rows):
        if can_be_taken:
            # Checked above; "raise" would copy everything twice.
            np.take(plain, rows[first:end], axis=0, out=result[first:end], mode="clip")
        else:
            result[first:end] = plain[rows[first:end]]
    return result


def fetch_first(array: Any, mapping: Mapping, rows: np.ndarray) -> None:
    """Before rows are written to: as many of them as a part of the budget holds."""
    if len(rows) == 0 or all_in_memory(mapping):
        return
    for _ in batches(array, mapping, rows[:MOST_ROWS]):
        pass
