"""Picking rows: their pages are fetched many at a time, where touching them in turn would wait for each.

A thread that touches a page which is not there waits for it alone, so a gather would have one read in flight. Here the
pages of the next rows are asked for while those of the last are copied.
"""

from __future__ import annotations

from typing import Any, Iterable, Iterator, List, Optional, Tuple

import numpy as np

from tiermap import _operations
from tiermap._mapping import Mapping

#: Fewer rows than this are not worth a message to another thread.
FEWEST_ROWS = 4
#: Rows fetched at once, at most, where each is in pages of its own: some thousand requests keep any disk busy.
MOST_ROWS = 2048
#: Indices looked at at once: what is worked out for each takes some 50 bytes meanwhile, beside the budget.
INDICES_AT_ONCE = 1 << 18


def rows_meant(array: Any, index: Any) -> Optional[np.ndarray]:
    """The rows that an index picks: their numbers, or a boolean for each there is. None where it is not an index that
    picks whole rows.

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
        return rows if len(rows) == count else None
    if rows.dtype.kind not in "iu" or int(rows.min()) < -count or int(rows.max()) >= count:
        return None
    return rows


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


def numbers_of(rows: np.ndarray, count: int) -> Iterator[np.ndarray]:
    """The numbers of the rows, as int64 in order, some at a time: of booleans all together are eight times as large."""
    found: List[np.ndarray] = []
    for first in range(0, len(rows), INDICES_AT_ONCE):
        piece = rows[first:first + INDICES_AT_ONCE]
        if piece.dtype == np.bool_:
            numbers = np.flatnonzero(piece) + first
        else:
            numbers = piece.astype(np.int64)
            numbers[numbers < 0] += count
        if len(numbers) > 0:
            found.append(numbers)
        # Few are not fetched for themselves.
        if sum(map(len, found)) >= MOST_ROWS:
            yield np.concatenate(found)
            found = []
    if found:
        yield np.concatenate(found)


def stretches(array: Any, mapping: Mapping, pieces: Iterable[np.ndarray]) -> Iterator[Tuple[np.ndarray, Any]]:
    """Rows whose pages are asked for together, and what tells when they have come."""
    row_bytes = array.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    start = _operations.address(array) - mapping.address
    stride = array.strides[0]
    # Pages of three stretches are in memory at once: together a quarter of the budget.
    pages_a_row = (row_bytes - 1) // mapping.page_size + 2
    most_pages = max(pages_a_row, min(MOST_ROWS * pages_a_row, mapping.cache.budget // 12 // mapping.page_size))
    for numbers in pieces:
        first = (start + numbers * stride) // mapping.page_size
        last = (start + numbers * stride + row_bytes - 1) // mapping.page_size
        # What a row shares with the one before it is there already.
        pages = last - first + 1
        pages[1:] -= first[1:] == last[:-1]
        pages[1:][(first[1:] == first[:-1]) & (last[1:] == last[:-1])] = 0
        sums = np.cumsum(pages)
        begin = 0
        while begin < len(numbers):
            before = int(sums[begin - 1]) if begin > 0 else 0
            end = max(int(np.searchsorted(sums, before + most_pages, "right")), begin + 1)
            asked = pages[begin:end] > 0
            asked[0] = True
            yield numbers[begin:end], mapping.prefetch_rows(start, stride, row_bytes, numbers[begin:end][asked])
            begin = end


def batches(array: Any, mapping: Mapping, pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Stretches of rows, each yielded when its pages have come and those of the next are on their way."""
    rows: Any = None
    under_way: Any = None
    for following, coming in stretches(array, mapping, pieces):
        if under_way is not None:
            under_way.wait()
            yield rows
        rows, under_way = following, coming
    if under_way is not None:
        under_way.wait()
        yield rows


def take(array: Any, mapping: Mapping, rows: np.ndarray) -> np.ndarray:
    """``array[rows]`` as a plain array."""
    plain: np.ndarray = array.view(np.ndarray)
    if all_in_memory(mapping):
        picked: np.ndarray = plain[rows]
        return picked
    count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
    result = np.empty((count, *array.shape[1:]), array.dtype)
    # take() is quicker, and makes a copy of the whole array where it is not like this.
    can_be_taken = plain.flags.c_contiguous and plain.flags.aligned and plain.dtype.isnative
    first = 0
    for numbers in batches(array, mapping, numbers_of(rows, len(array))):
        end = first + len(numbers)
        if can_be_taken:
            # Checked above; "raise" would copy everything twice.
            np.take(plain, numbers, axis=0, out=result[first:end], mode="clip")
        else:
            result[first:end] = plain[numbers]
        first = end
    return result


def fetch_first(array: Any, mapping: Mapping, rows: np.ndarray) -> None:
    """Before rows are written to: as many of them as a part of the budget holds."""
    if all_in_memory(mapping):
        return
    first = next(numbers_of(rows, len(array)), None)
    if first is not None:
        for _ in batches(array, mapping, [first[:MOST_ROWS]]):
            pass
