"""What ``page_size="auto"`` means."""

from __future__ import annotations

from operator import index
from typing import Any, Iterable, Optional, Union

from tiermap import _core

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
LEAST = 4 * KIB
LEAST_FOR_ROWS = 16 * KIB
MOST = 64 * MIB
#: What the engine takes for a budget.
LEAST_BUDGET = 20 * KIB
MOST_BUDGET = 128 << 40
#: No store, address or memory has more bytes.
MOST_BYTES = (1 << 63) - 1
#: A budget of fewer pages leaves the eviction policy nothing to choose from; a reader in order leaves it no choice.
PAGES_IN_A_BUDGET = 64
FEW_PAGES = 16
#: So much more data than memory that page tables count.
MANY_BUDGETS = 16

Size = Union[int, str]


def choose_page_size(data_bytes: int, row_bytes: int, budget_bytes: int, *, sequential: bool = False) -> int:
    """The page size that ``page_size="auto"`` takes.

    Parameters
    ----------
    data_bytes : int
        Size of the array.
    row_bytes : int
        Bytes of ``array[0]``; of one element where the array has one dimension.
    budget_bytes : int
        The budget of the cache that is to serve it.
    sequential : bool, optional
        Whether it was said that the array is read in order.

    Returns
    -------
    int
        A power of two from 4 KiB to 2 MiB.

    Notes
    -----
    In this order:

    1. read in order: 2 MiB, for few faults and long reads;
    2. all of it fits in three quarters of the budget, and it is 64 MiB or more: 2 MiB, which the processor maps as one;
    3. one dimension: 64 KiB, since nothing tells how it will be read; but 2 MiB where the data are more than 16
       budgets, since the kernel's page tables of smaller pages (2 MiB for each GiB that was touched) would be felt;
    4. rows: the power of two that holds a row, from 16 KiB to 1 MiB, since rows are what is fetched. (Pages of 4 KiB
       pick small rows faster, and take much longer to go over all of them);
    5. whatever came out is halved until the budget holds 64 pages of it (16 for the 2 MiB of 1 and 3), and as long as
       half a page holds all of the data: of many small arrays each takes a page at least.
    """
    # Counts that numpy made would overflow.
    data_bytes, row_bytes = parse_size(data_bytes, "data_bytes"), parse_size(row_bytes, "row_bytes")
    budget_bytes = parse_size(budget_bytes, "budget_bytes")
    fewest = PAGES_IN_A_BUDGET
    in_one_row = row_bytes < 64
    if sequential or (in_one_row and data_bytes > MANY_BUDGETS * budget_bytes):
        pages, fewest = 2 * MIB, FEW_PAGES
    elif data_bytes <= budget_bytes // 4 * 3:
        pages = 2 * MIB if data_bytes >= 64 * MIB else 256 * KIB
    elif in_one_row:
        pages = 64 * KIB
    else:
        pages = min(max(power_of_two_above(row_bytes), LEAST_FOR_ROWS), MIB)
    while pages > LEAST and (pages * fewest > budget_bytes or pages // 2 >= data_bytes):
        pages //= 2
    return pages


def power_of_two_above(number: int) -> int:
    """The least power of two that is not below ``number``."""
    return 1 << max(number - 1, 0).bit_length()


def in_a_line(value: Any) -> str:
    """What a message says of a value that may have many lines."""
    return " ".join(repr(value).split())[:100]


def utf8_of(text: str) -> str:
    """For the extension module, which takes no half of a surrogate pair, as names of files have."""
    return text.encode("utf-8", "replace").decode()


def check_word(value: Any, words: Iterable[str], what: str, choose: str) -> None:
    """That an option is one of some words. Arrays are neither equal to a text nor not.

    Raises
    ------
    ValueError
        With what there is to choose.
    """
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"{what} {in_a_line(value)} is unknown: choose {choose}")


def parse_size(value: Size, what: str) -> int:
    """Bytes that a number or a text such as ``"64KiB"`` means.

    Raises
    ------
    ValueError
        With the text and the remedy.
    """
    if isinstance(value, str):
        return _core.parse_size(utf8_of(value), what)
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{what} {in_a_line(value)} is not a size: give bytes, or a text such as '64KiB'")
    if number < 0:
        raise ValueError(f"{what} {number} is negative: give bytes, or a text such as '64KiB'")
    if number > MOST_BYTES:
        raise ValueError(f"{what} {number} is more bytes than anything here can have: give at most {MOST_BYTES}, or a "
                         "text such as '64KiB'")
    return number


def parse_page_size(value: Size) -> int:
    """A page size that a region can have.

    Raises
    ------
    ValueError
        With the value and the remedy.
    """
    size = parse_size(value, "page size")
    if size & (size - 1) != 0 or not LEAST <= size <= MOST:
        raise ValueError(f"page size {size} is not a power of two from 4KiB to 64MiB: choose one of those, or 'auto'")
    return size


def parse_budget(value: Optional[Size], own: int = 0) -> Optional[int]:
    """Bytes of a budget, which may also be a share of the memory that is left, and of the budget that it replaces."""
    if value is None:
        return None
    if isinstance(value, str) and value.rstrip().endswith("%"):
        return _core.parse_budget(utf8_of(value), own)
    size = parse_size(value, "budget")
    if not LEAST_BUDGET <= size <= MOST_BUDGET:
        raise ValueError(f"budget {value!r} is out of range: choose 20KiB to 128TiB, or above 0% and up to 100%")
    return size
