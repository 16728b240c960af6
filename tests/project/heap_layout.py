#!/usr/bin/env python3
"""docs/heap-layout.md is enough to read a heap: the objects' names of one that a program made are found by what the page
says of magic words, offsets and lengths alone."""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
del sys.argv[1:3]
sys.dont_write_bytecode = True
INGEST = BUILD / "bin/tiermap-ingest"
BLOCK = 4096


def round_up(value, unit):
    return -(-value // unit) * unit


class Heap:
    """The places that the page tells."""

    def __init__(self, folder):
        self.data = open(folder / "data", "rb")
        self.superblock = self.read(0, BLOCK)
        self.state = self.read(BLOCK, BLOCK)
        self.capacity = struct.unpack_from("=Q", self.superblock, 32)[0]
        slabs = self.capacity // 65536
        self.records = round_up(slabs, 255) // 255
        metadata = round_up(4096 * (self.records + 1) + 1024 * slabs, BLOCK)
        self.names_at = 2 * BLOCK + metadata
        names = round_up(max(self.capacity // 16, 1 << 20), BLOCK)
        self.data_at = round_up(self.names_at + names, 2 << 20)

    def read(self, at, count):
        self.data.seek(at)
        return self.data.read(count)

    def names(self):
        """(name, type, offset, number, size) of each object."""
        text = self.read(self.names_at, struct.unpack_from("=Q", self.state, 24)[0])
        found = []
        while text:
            offset, number, size, _, unique, *lengths = struct.unpack_from("<QQQIIIIII", text)
            parts, at = [], 48
            for length in lengths:
                parts.append(text[at:at + length].decode())
                at += length
            found.append((parts[0], parts[1], offset, number, size, unique, parts[2]))
            text = text[at:]
        return found


class Layout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "graph"
        subprocess.run([INGEST, "--heap", "--scale", "8", "--checkpoints", "off", "--file", self.path, "--keep"],
                       check=True, stdout=subprocess.DEVNULL)
        self.heap = Heap(self.path)
        self.addCleanup(self.heap.data.close)

    def test_blocks_begin_as_the_page_says(self):
        page = (ROOT / "docs/heap-layout.md").read_text()
        for magic in ("TIERHEAP", "TIERSTAT", "TIERSLAB", "TIERHPJN", "TIERCMIT"):
            self.assertIn(f"`{magic}`", page)
        self.assertEqual(self.heap.superblock[:20], b"TIERHEAP" + struct.pack("=III", 0x01020304, 1, 8))
        self.assertEqual(self.heap.state[:12], b"TIERSTAT" + struct.pack("=I", 1))
        self.assertEqual(self.heap.read(2 * BLOCK, 12), b"TIERSLAB" + struct.pack("<I", 1))
        self.assertEqual(struct.unpack("<Q", self.heap.read(2 * BLOCK + 16, 8))[0], self.heap.capacity // 65536)

    def test_the_file_ends_with_the_data_area(self):
        self.assertEqual((self.path / "data").stat().st_size, self.heap.data_at + self.heap.capacity)

    def test_names_are_where_the_page_says(self):
        names = {name: about for name, *about in self.heap.names()}
        self.assertEqual(set(names), {"adjacency lists", "counts"})
        kind, offset, number, size, unique, compiler = names["counts"]
        self.assertIn("GraphCounts", kind)
        self.assertEqual((number, size, unique), (1, 16, 0))
        self.assertRegex(compiler, r"^(gcc|clang) \d+$")
        vertices, edges = struct.unpack("=QQ", self.heap.read(self.heap.data_at + offset, 16))
        self.assertEqual((vertices, edges), (1 << 8, 1 << 12))
        self.assertEqual(names["adjacency lists"][2], 1024)

    def test_slab_records_hold_what_is_live(self):
        record = self.heap.read(2 * BLOCK + 4096, 4096)
        self.assertEqual(struct.unpack_from("<Q", record, 8)[0], 1)
        kinds = {record[16 + 16 * index] for index in range(255)}
        self.assertIn(1, kinds)
        self.assertLessEqual(kinds, {0, 1, 2})
        sizes = [8 * (index + 1) if index < 8 else (9 + index % 8) << (index - 8) // 8 + 3 for index in range(112)]
        self.assertEqual(sizes[-1], 512 << 10)
        self.assertTrue(re.search(r"112 sizes", (ROOT / "docs/heap-layout.md").read_text()))
        # A node of each vertex's hash map is one of the live blocks.
        live = sum(struct.unpack_from("<I", record, 20 + 16 * index)[0] for index in range(255)
                   if record[16 + 16 * index] == 1)
        self.assertGreaterEqual(live, 1 << 8)


if __name__ == "__main__":
    if not INGEST.exists():
        print("skipped: tiermap-ingest is not built")
        sys.exit(77)
    unittest.main()
