"""Where a heap's objects have their numbers: vectors and texts read as they lie, and believed only where they can be.

The bytes of a heap may be damaged, or of a type that is not what its name says. So whatever leads elsewhere is checked
before it is followed: to a block that is in use, and that holds what is said to be there.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

import numpy as np

from tiermap import _core
from tiermap._array import Array, Origin, attach
from tiermap._heap_types import STANDARD_VECTOR, Elements, Layout, Several, Text, Vector, layout_of
from tiermap._mapping import Mapping

#: Of a vector and of a HeapString, which are four words each: an allocator and three of their own.
HEADER_WORDS = 4
HEADER_BYTES = 8 * HEADER_WORDS
#: An offset_ptr that is null.
NULL = 1
WORD = 1 << 64


@dataclass(frozen=True)
class HeapObject:
    """An object of a heap, as ``Heap.objects()`` tells of it.

    Attributes
    ----------
    name : str
        Empty for the unique object of its type.
    type : str
        As in C++.
    number : int
        How many lie side by side.
    itemsize : int
        Bytes of one of them: ``sizeof`` in C++.
    alignment : int
        ``alignof``.
    offset : int
        Of the first, in the heap's data.
    description : str
        The user's.
    unique : bool
        Whether it is found by its type and has no name.
    """

    name: str
    type: str
    number: int
    itemsize: int
    alignment: int
    offset: int
    description: str
    unique: bool

    @property
    def bytes(self) -> int:
        """Of all of them. What they point to, as a vector's elements, lies elsewhere and is not counted."""
        return self.number * self.itemsize

    @property
    def title(self) -> str:
        """For messages."""
        return f"the unique object of type {self.type}" if self.unique else f"object {self.name!r}"


@dataclass(frozen=True)
class Block:
    """Elements that a header leads to."""

    offset: int
    count: int  # Of elements, or of bytes where the header says no more.
    room: int  # The same, of what was allocated.


class Contents:
    """The data of an open heap. Thread-safe."""

    def __init__(self, path: str, heap: _core.Heap, mapping: Mapping) -> None:
        self.path = path
        self.heap = heap
        self.mapping = mapping

    def view(self, dtype: np.dtype, shape: Tuple[int, ...], offset: int) -> Any:
        """An array of what lies in the heap's data from ``offset`` on."""
        if 0 in shape:
            offset = 0
        return attach(Array, self.mapping, shape, dtype, self.mapping.recipe.offset + offset, writable=False,
                      origin=Origin(self.path, offset, "r"))

    def bytes_of(self, found: HeapObject) -> Any:
        """The object itself."""
        return self.view(np.dtype(np.uint8), (found.bytes,), found.offset)

    def array(self, found: HeapObject, dtype: Optional[np.dtype]) -> Any:
        """``Heap.array()``."""
        layout = layout_of(found.type)
        if isinstance(layout, Text):
            raise TypeError(f"{found.title} of heap {self.path} is text: take heap[name], or its bytes() as they lie")
        if isinstance(layout, Vector):
            self.check_size(found, layout)
            return self.one_or_list(found, lambda offset: self.vector(found, layout, offset, dtype))
        if dtype is None:
            self.check_size(found, layout)
        element, shape = self.fitting(found, layout, found.itemsize, dtype)
        return self.view(element, ((found.number,) if found.number > 1 else ()) + shape, found.offset)

    def value(self, found: HeapObject) -> Any:
        """``heap[name]``."""
        layout = layout_of(found.type)
        if isinstance(layout, Text):
            self.check_size(found, layout)
            return self.one_or_list(found, lambda offset: self.text(found, offset))
        return self.array(found, None)

    def check_size(self, found: HeapObject, layout: Layout) -> None:
        """Raises TypeError if it is laid out otherwise than here."""
        here = found.itemsize if isinstance(layout, Several) else HEADER_BYTES
        here = layout.bytes if isinstance(layout, Elements) else here
        if found.itemsize != here:
            raise TypeError(f"{found.title} of heap {self.path} is a {found.type} of {found.itemsize} bytes, and has "
                            f"{here} where it can be read: it was made with another library or machine; take its "
                            "bytes()")

    def one_or_list(self, found: HeapObject, make: Any) -> Any:
        made = [make(found.offset + index * HEADER_BYTES) for index in range(found.number)]
        return made[0] if found.number == 1 else made

    def fitting(self, found: HeapObject, layout: Any, size: Optional[int],
                dtype: Optional[np.dtype]) -> Tuple[np.dtype, Tuple[int, ...]]:
        """The dtype and shape of what has ``size`` bytes, where that is known, and is called ``layout``."""
        if dtype is None:
            return self.elements(found, layout)
        size = layout.bytes if isinstance(layout, Elements) and size is None else size
        if size is None or size == dtype.itemsize:
            return dtype, ()
        inner: Tuple[int, ...] = layout.shape
        if inner and size == dtype.itemsize * int(np.prod(inner, dtype=object)):
            return dtype, inner
        raise ValueError(f"dtype {dtype} has {dtype.itemsize} bytes, and {found.title} of heap {self.path}, "
                         f"{found.type}, has elements of {size}: give a dtype of that itemsize (align=True pads a "
                         "record as C++ does)")

    def elements(self, found: HeapObject, layout: Any) -> Tuple[np.dtype, Tuple[int, ...]]:
        if isinstance(layout, Several):
            raise TypeError(f"{found.title} of heap {self.path} is a {found.type}, which numpy has no type for: give "
                            "array(name, dtype=...) a dtype that has its members, or take its bytes()")
        return layout.dtype, layout.shape

    def vector(self, found: HeapObject, layout: Vector, offset: int, dtype: Optional[np.dtype]) -> Any:
        """The elements of the vector whose header is at ``offset``."""
        if dtype is None:
            self.elements(found, layout.element)  # A type that cannot be is said before anything is read.
        by_bytes = layout.kind == STANDARD_VECTOR
        block = self.standard_vector(found, offset) if by_bytes else self.boost_vector(found, offset)
        element, shape = self.fitting(found, layout.element, None, dtype)
        size = element.itemsize * int(np.prod(shape, dtype=object))
        count, room = (block.count, block.room) if not by_bytes else (block.count // size, block.room // size)
        exact = not by_bytes or (block.count % size == 0 and block.room % size == 0)
        if block.room > 0:
            has = self.block_bytes(found, block.offset)
            if not exact or not self.holds(has, room, size):
                raise self.misfit(found, layout, size, dtype, has)
        return self.view(element, (count,) + shape, block.offset)

    @staticmethod
    def holds(has: int, room: int, size: int) -> bool:
        """Whether a block of ``has`` bytes is what is allocated for ``room`` elements.

        How they are aligned is not known, but their size is a multiple of that.
        """
        if room * size > has:
            return False
        alignments = [1 << power for power in range(13) if size % (1 << power) == 0]
        return any(has == _core.Heap.block_bytes_for(room * size, alignment) for alignment in alignments)

    def misfit(self, found: HeapObject, layout: Vector, size: int, dtype: Optional[np.dtype], has: int) -> Exception:
        if dtype is None or isinstance(layout.element, Elements):
            return self.damaged(found, f"its block has {has} bytes, and elements of {size} do not fit them")
        return ValueError(f"dtype {dtype} has {size} bytes, and elements of that size are not what {found.title} of "
                          f"heap {self.path}, {found.type}, has in a block of {has}: give a dtype whose itemsize is "
                          "the sizeof of its elements")

    def boost_vector(self, found: HeapObject, offset: int) -> Block:
        words = self.header(found, offset)
        count, room = words[2], words[3]
        if count > room:
            raise self.damaged(found, f"{count} elements are said to be in room for {room}")
        return Block(self.target(offset + 8, words[1]) if room else 0, count, room)

    def standard_vector(self, found: HeapObject, offset: int) -> Block:
        words = self.header(found, offset)
        if words[1] == NULL and words[2] == NULL and words[3] == NULL:
            return Block(0, 0, 0)
        first, last, end = (self.target(offset + 8 * index, words[index]) for index in (1, 2, 3))
        if not first <= last <= end:
            raise self.damaged(found, f"its elements are said to be from {first} to {last}, in room up to {end}")
        return Block(first, last - first, end - first)

    def text(self, found: HeapObject, offset: int) -> str:
        """Of a HeapString. Bytes that are no UTF-8 become what ``os.fsdecode`` makes of them."""
        words = self.header(found, offset)
        if words[1] & 1:  # It is short, and lies in the header itself.
            length, start = words[1] >> 1 & 0x7F, offset + 9
            if length > HEADER_BYTES - 10:
                raise self.damaged(found, f"a short text is said to have {length} bytes")
        else:
            length, start = words[1] >> 1, self.target(offset + 24, words[3])
            if not length < words[2] <= self.block_bytes(found, start):
                raise self.damaged(found, f"a text is said to have {length} bytes in room for {words[2]}")
        raw: bytes = self.view(np.dtype(np.uint8), (length,), start).tobytes()
        return raw.decode("utf-8", "surrogateescape")

    def header(self, found: HeapObject, offset: int) -> List[int]:
        """Its four words; the first is the allocator, which leads to the beginning of the heap."""
        words: List[int] = np.asarray(self.view(np.dtype(np.uint64), (HEADER_WORDS,), offset)).tolist()
        if self.target(offset, words[0]) != 0:
            raise self.damaged(found, "its allocator is of no heap, or of another")
        return words

    @staticmethod
    def target(place: int, word: int) -> int:
        """Where an offset_ptr at ``place`` leads."""
        return (place + word) % WORD

    def block_bytes(self, found: HeapObject, offset: int) -> int:
        """Of the block in use that begins there."""
        has = self.heap.block_bytes(offset)
        if has == 0 or offset + has > self.mapping.size:
            raise self.damaged(found, f"its elements are said to be at {offset}, where no block begins")
        return has

    def damaged(self, found: HeapObject, why: str) -> OSError:
        return OSError(errno.EINVAL, f"heap {self.path} is damaged, or {found.title} is no {found.type} as this "
                                     f"version knows it: {why}: restore it from a snapshot, or take its bytes()")

