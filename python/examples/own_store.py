#!/usr/bin/env python3
"""A store of one's own: blocks that are compressed one by one, used as an array without unpacking the file.

    python own_store.py
"""

import os
import struct
import tempfile
import zlib

import numpy as np

import tiermap

BLOCK = 256 << 10


def pack(path, data):
    """Writes data as compressed blocks, and where each lies at the end."""
    places = []
    with open(path, "wb") as file:
        for first in range(0, len(data), BLOCK):
            packed = zlib.compress(data[first:first + BLOCK], 1)
            places.append((file.tell(), len(packed)))
            file.write(packed)
        for place in places:
            file.write(struct.pack("<QQ", *place))
        file.write(struct.pack("<QQ", len(places), len(data)))


class PackedBlocks:
    """What pack() wrote, as bytes. It is copied to a process of its own, which opens the file for itself."""

    threads = 2

    def __init__(self, path):
        self.path = path

    def open(self):
        self.file = os.open(self.path, os.O_RDONLY)
        end = os.fstat(self.file).st_size
        count, self.size_of_data = struct.unpack("<QQ", os.pread(self.file, 16, end - 16))
        table = os.pread(self.file, 16 * count, end - 16 - 16 * count)
        self.places = list(struct.iter_unpack("<QQ", table))

    def size(self):
        return self.size_of_data

    def read_into(self, offset, buffer):
        block, skip = divmod(offset, BLOCK)
        where, length = self.places[block]
        data = zlib.decompress(os.pread(self.file, length, where))[skip:skip + len(buffer)]
        buffer[:len(data)] = data
        return len(data)  # Fewer than asked for: the rest is asked for again.


def main():
    values = np.arange(2_000_000, dtype=np.int64) // 100
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "values.packed")
        pack(path, values.tobytes())
        array = tiermap.map(PackedBlocks(path), np.int64, page_size=BLOCK, budget="4MiB")
        assert array[1_234_567] == 12345
        assert array.sum() == values.sum()
        print(f"{values.nbytes >> 20} MiB out of {os.path.getsize(path) >> 10} KiB in "
              f"{array.stats()['resident_bytes'] >> 20} MiB of memory, the sum is right")


if __name__ == "__main__":
    main()
