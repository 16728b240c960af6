"""What the name of a C++ type says about its bytes.

A heap remembers how a type is called, as compilers for Linux mangle it. Written out that reads
``boost::container::vector<double, tiermap::HeapAllocator<double>, void>``, with blanks where a demangler likes them,
and with ``std::__cxx11::`` or ``std::__1::`` for ``std::`` where a library has it so.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from typing import List, Tuple, Union

import numpy as np

#: Of char and wchar_t, which have a sign on some machines.
SIGNED_CHAR = platform.machine() in ("x86_64", "AMD64", "i686", "i386")

NUMBERS = {
    "bool": np.bool_, "char": np.int8 if SIGNED_CHAR else np.uint8, "signed char": np.int8, "unsigned char": np.uint8,
    "std::byte": np.uint8, "char8_t": np.uint8, "char16_t": np.uint16, "char32_t": np.uint32,
    "wchar_t": np.int32 if SIGNED_CHAR else np.uint32, "short": np.short, "unsigned short": np.ushort, "int": np.intc,
    "unsigned int": np.uintc, "unsigned": np.uintc, "long": np.dtype("l"), "unsigned long": np.dtype("L"),
    "long long": np.longlong, "unsigned long long": np.ulonglong, "float": np.float32, "double": np.float64,
    "long double": np.longdouble, "_Float16": np.float16, "std::complex<float>": np.complex64,
    "std::complex<double>": np.complex128, "std::complex<long double>": np.clongdouble,
}
#: Containers that hold a pointer to their elements, and in which order they hold it, for each library that has them.
BOOST_VECTOR, STANDARD_VECTOR = "boost::container::vector", "std::vector"
ALLOCATORS = ("tiermap::HeapAllocator", "tiermap::HeapFallbackAllocator")
SCOPED_ALLOCATORS = ("boost::container::scoped_allocator_adaptor", "std::scoped_allocator_adaptor")
EXTENT = re.compile(r"^(?:\([a-z ]+\))?(\d{1,18})[uUlLzZ]*$")
#: A C++ array behind its elements' type.
BRACKETS = re.compile(r"^(.*\S)\s*\[(\d{1,18})[uUlL]*\]$", re.DOTALL)
#: What nests deeper is nothing that a program was compiled with, and numpy has 32 dimensions.
DEEPEST = 30


@dataclass(frozen=True)
class Elements:
    """A number, or several of one type side by side: those of ``std::array``."""

    dtype: np.dtype
    shape: Tuple[int, ...] = ()

    @property
    def bytes(self) -> int:
        """Of all of it: sizeof in C++."""
        return self.dtype.itemsize * int(np.prod(self.shape, dtype=object))


@dataclass(frozen=True)
class Several:
    """Side by side, of a type that is not known by its name."""

    shape: Tuple[int, ...]


@dataclass(frozen=True)
class Vector:
    """A vector whose elements lie in another block."""

    kind: str  # BOOST_VECTOR or STANDARD_VECTOR.
    element_type: str
    element: Union[Elements, Several]


@dataclass(frozen=True)
class Text:
    """HeapString."""


Layout = Union[Elements, Several, Vector, Text]
UNKNOWN = Several(())


def layout_of(type_name: str) -> Layout:
    """What a type is made of; UNKNOWN for what is none of these."""
    text = tidy(type_name)
    name, arguments = template(text)
    if name in (BOOST_VECTOR, STANDARD_VECTOR) and is_plain_vector(name, arguments):
        return Vector(name, arguments[0], elements_of(arguments[0]))
    if name == "boost::container::basic_string" and is_plain_string(arguments):
        return Text()
    return elements_of(text)


def tidy(text: str) -> str:
    """Blanks only where words need them, and the inline namespaces that mean nothing here taken out."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r" ?([<>,\[\]]) ?", r"\1", text)
    return text.replace("std::__cxx11::", "std::")


def template(text: str) -> Tuple[str, List[str]]:
    """``a::b<c, d<e>>`` as ``a::b`` and its arguments; no arguments where there is nothing to take apart."""
    if not text.endswith(">"):
        return text, []
    depth = 0
    ends = [len(text) - 1]
    for place in range(len(text) - 1, -1, -1):
        if text[place] in ">)]}":
            depth += 1
        elif text[place] in "<([{":
            depth -= 1
            if depth == 0:
                ends.append(place)
                arguments = [text[first + 1:end] for end, first in zip(ends, ends[1:])]
                return text[:place], arguments[::-1]
        elif text[place] == "," and depth == 1:
            ends.append(place)
    return text, []


def is_plain_vector(name: str, arguments: List[str]) -> bool:
    """Whether it lies as this version knows: no options, and an allocator that is one pointer."""
    if name == STANDARD_VECTOR and arguments[:1] == ["bool"]:
        return False  # Bits.
    options = arguments[2:]
    return len(arguments) >= 2 and is_allocator(arguments[1]) and options in ([], ["void"])


def is_plain_string(arguments: List[str]) -> bool:
    return (len(arguments) == 3 and arguments[0] == "char" and is_allocator(arguments[2])
            and arguments[1].replace("std::__1::", "std::") == "std::char_traits<char>")


def is_allocator(text: str) -> bool:
    name, arguments = template(text)
    if name in SCOPED_ALLOCATORS and len(arguments) == 1:
        name, _ = template(arguments[0])
    return name in ALLOCATORS


def elements_of(text: str, depth: int = 0) -> Union[Elements, Several]:
    """Numbers side by side, or several of what nothing is known of."""
    if depth > DEEPEST:
        return UNKNOWN
    text = text.replace("std::__1::", "std::")
    known = NUMBERS.get(text)
    if known is not None:
        return Elements(np.dtype(known))
    brackets = BRACKETS.match(text)
    if brackets:
        shape: Tuple[int, ...] = ()
        while brackets:  # The last of them is the innermost.
            shape = (int(brackets.group(2)),) + shape
            text = brackets.group(1)
            brackets = BRACKETS.match(text)
        return outside(shape, elements_of(text, depth + 1))
    name, arguments = template(text)
    if name == "std::array" and len(arguments) == 2:
        extent = EXTENT.match(arguments[1])
        if extent is not None:
            return outside((int(extent.group(1)),), elements_of(arguments[0], depth + 1))
    if name == "std::pair" and len(arguments) == 2:
        return pair_of(elements_of(arguments[0], depth + 1), elements_of(arguments[1], depth + 1))
    return UNKNOWN


def outside(shape: Tuple[int, ...], inner: Union[Elements, Several]) -> Union[Elements, Several]:
    whole = shape + inner.shape
    if 0 in shape or len(whole) > DEEPEST:
        return UNKNOWN  # An array of none still takes a byte.
    return Elements(inner.dtype, whole) if isinstance(inner, Elements) else Several(whole)


def pair_of(first: Union[Elements, Several], second: Union[Elements, Several]) -> Union[Elements, Several]:
    """A record with ``first`` and ``second``, laid out as compilers lay out structures."""
    if not isinstance(first, Elements) or not isinstance(second, Elements):
        return UNKNOWN
    try:
        return Elements(np.dtype([("first", first.dtype, first.shape), ("second", second.dtype, second.shape)],
                                 align=True))
    except ValueError:  # Larger than numpy can say.
        return UNKNOWN

