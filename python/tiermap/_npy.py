"""The header of a .npy file, read from and written to any store."""

from __future__ import annotations

import ast
import io
import re
import struct
from dataclasses import dataclass
from typing import Any, Callable, Tuple

import numpy as np

MAGIC = b"\x93NUMPY"
LONGEST = 1 << 20
#: Or a text, in which an L means itself.
LONG_NUMBER = re.compile(r"""('[^']*'|"[^"]*"|\b\d+)L?""")


@dataclass(frozen=True)
class Header:
    """What a .npy header says."""

    dtype: np.dtype
    shape: Tuple[int, ...]
    fortran_order: bool
    bytes: int  # Of the header, magic included: where the data begin.


def read_header(read: Callable[[int, int], bytes], name: str) -> Header:
    """Reads a header by ``read(offset, bytes)``.

    Raises
    ------
    ValueError
        If it is none, or not one of an array that can be mapped.
    """
    start = read(0, 12)
    if len(start) < 10 or start[:6] != MAGIC:
        raise ValueError(f"{name} is no .npy file, it does not begin with its magic: map it with format='raw'")
    major, minor = start[6], start[7]
    if major not in (1, 2, 3) or minor != 0:
        raise ValueError(f"{name} has a .npy header of version {major}.{minor}: versions 1.0, 2.0 and 3.0 are known")
    prefix = 10 if major == 1 else 12
    length = struct.unpack("<H" if major == 1 else "<I", start[8:prefix])[0] if len(start) >= prefix else -1
    text = read(prefix, length) if 0 <= length <= LONGEST else b""
    if len(text) != length:
        raise ValueError(f"{name} has a .npy header that is cut off or longer than 1 MiB: write it anew")
    dtype, shape, fortran_order = described(text.decode("utf-8" if major == 3 else "latin-1", "replace"), name)
    if dtype.hasobject:
        raise ValueError(f"{name} holds Python objects, which cannot be mapped: load it with numpy.load")
    if dtype.itemsize == 0:
        raise ValueError(f"{name} holds {dtype}, elements of no bytes, which cannot be mapped: load it with numpy.load")
    return Header(dtype, shape, fortran_order, prefix + length)


def described(text: str, name: str) -> Tuple[np.dtype, Tuple[int, ...], bool]:
    """The type, shape and order that a header's text names."""
    try:
        said = literal(text)
        shape, fortran_order = said["shape"], said["fortran_order"]
        if type(shape) is not tuple or not all(type(count) is int and count >= 0 for count in shape):
            raise ValueError(f"shape {shape!r}")
        if type(fortran_order) is not bool:
            raise ValueError(f"fortran_order {fortran_order!r}")
        return np.lib.format.descr_to_dtype(said["descr"]), shape, fortran_order
    except Exception as error:  # Damaged text may raise anything, RecursionError and MemoryError too.
        why = str(error).partition("\n")[0][:200] or type(error).__name__
        raise ValueError(f"{name} has a damaged .npy header ({why}): write it anew") from None


def literal(text: str) -> Any:
    """What a text of Python's means. Python 2 wrote numbers that were long with an L, and numpy reads those too."""
    try:
        return ast.literal_eval(text)
    except SyntaxError:
        return ast.literal_eval(LONG_NUMBER.sub(r"\1", text))


def make_header(dtype: np.dtype, shape: Tuple[int, ...], fortran_order: bool) -> bytes:
    """The header as numpy itself writes it."""
    said = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran_order, "shape": shape}
    buffer = io.BytesIO()
    try:
        np.lib.format.write_array_header_1_0(buffer, said)
    except ValueError:  # Too long for the 16 bits of version 1.
        buffer = io.BytesIO()
        np.lib.format.write_array_header_2_0(buffer, said)
    return buffer.getvalue()
