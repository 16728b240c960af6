"""What numpy's users complain of: memory that grows with what was read or written. Each in a process of its own."""

import os
import pathlib
import sys

import pytest

from conftest import MIB, ROOT

MEASURE = """
    import gc, os, sys
    import numpy as np
    import tiermap

    MIB = 1 << 20
    random = np.random.default_rng(0)

    def status(name):
        for line in open("/proc/self/status"):
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024

    def make(path, mebibytes):
        with open(path, "wb") as file:
            for _ in range(mebibytes // 16):
                file.write(random.bytes(16 * MIB))
"""


def test_copying_one_map_to_another_keeps_memory_flat(tmp_path, program):
    """numpy#26532: the pages and the page tables of what was read and written stay. Nothing is said but the budget."""
    ended = program(MEASURE + """
    folder, = sys.argv[1:]
    make(folder + "/in", 544)
    cache = tiermap.Cache("32MiB")
    source = cache.map(folder + "/in")
    target = cache.map(folder + "/out", np.uint8, len(source), mode="w")
    chunk = 4 * MIB
    most = tables = 0
    for first in range(0, len(source), chunk):
        if first == 64 * MIB:
            before, tables_before = status("VmRSS"), status("VmPTE")
        target[first:first + chunk] = source[first:first + chunk] + 1
        if first >= 64 * MIB:
            most, tables = max(most, status("VmRSS")), max(tables, status("VmPTE"))
    target.sync()
    for first in range(0, len(source), chunk):
        assert np.array_equal(target[first:first + chunk], source[first:first + chunk] + 1)
    print(before, most, tables_before, tables)
    """, tmp_path)
    assert ended.code == 0, ended
    before, most, tables_before, tables = map(int, ended.output.split())
    assert most < before + 24 * MIB, (before, most)
    # 1 GiB was mapped: at 4 KiB a page its page tables would be 2 MiB.
    assert tables < tables_before + 256 * 1024, (tables_before, tables)


def test_what_was_read_can_be_dropped(tmp_path, program):
    """numpy#28825: drop() gives memory back while the array lives."""
    ended = program(MEASURE + """
    folder, = sys.argv[1:]
    make(folder + "/data", 128)
    array = tiermap.map(folder + "/data", budget="1GiB", page_size="256KiB")
    empty = status("VmRSS")
    total = int(array.sum(dtype=np.int64))
    full = status("VmRSS")
    tiermap.drop(array[:64 * MIB])
    half = status("VmRSS")
    array.drop()
    none = status("VmRSS")
    assert int(array.sum(dtype=np.int64)) == total
    print(empty, full, half, none)
    """, tmp_path)
    assert ended.code == 0, ended
    empty, full, half, none = map(int, ended.output.split())
    assert full > empty + 120 * MIB
    assert half < full - 56 * MIB
    assert none < empty + 12 * MIB


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
@pytest.mark.parametrize("budget", ["256MiB", "64MiB"])
def test_dropped_memory_goes_to_the_system(tmp_path, program, mode, budget):
    """Also what was written, and what the cache had taken out of the array already."""
    ended = program(MEASURE + """
    folder, mode, budget = sys.argv[1:]
    make(folder + "/data", 128)
    array = tiermap.map(folder + "/data", mode=mode, budget=budget)
    empty = status("RssAnon")
    total = int(array.sum(dtype=np.int64))
    if mode != "r":
        array[::4096] ^= 255
        total = int(array.sum(dtype=np.int64))
    full = status("RssAnon")
    array.drop()
    print(empty, full, status("RssAnon"))
    assert int(array.sum(dtype=np.int64)) == total
    """, tmp_path, mode, budget)
    assert ended.code == 0, ended
    empty, full, none = map(int, ended.output.split())
    assert full > empty + (100 * MIB if budget == "256MiB" else 40 * MIB)
    assert none < empty + 12 * MIB, (empty, full, none)


@pytest.mark.parametrize("way", ["cache=False", "blocks"])
def test_a_pass_that_keeps_nothing(tmp_path, program, way):
    """numpy#28825: reading once takes a little memory, however much is read."""
    ended = program(MEASURE + """
    folder, way = sys.argv[1:]
    make(folder + "/data", 256)
    expected = sum(int(np.frombuffer(piece, np.uint8).sum(dtype=np.int64))
                   for piece in iter(lambda f=open(folder + "/data", "rb"): f.read(MIB), b""))
    before = status("VmRSS")
    if way == "blocks":
        array = tiermap.map(folder + "/data", budget="1GiB")
        total = most = 0
        for block in tiermap.blocks(array, "8MiB", cache=False):
            total += int(block.sum(dtype=np.int64))
            most = max(most, status("VmRSS"))
    else:
        array = tiermap.map(folder + "/data", cache=False)
        total = int(array.sum(dtype=np.int64))
        most = status("VmRSS")
    assert total == expected
    print(before, most)
    """, tmp_path, way)
    assert ended.code == 0, ended
    before, most = map(int, ended.output.split())
    assert most < before + 100 * MIB


def test_a_script_under_a_memory_limit_is_not_killed(tmp_path):
    """numpy#21657: the limit of a batch system counts page cache and all; more than the limit is read and written."""
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        from memory_limit import LimitUnavailable, MemoryLimit
    finally:
        sys.path.remove(str(ROOT / "bench"))
    text = MEASURE.replace("\n    ", "\n") + """
folder, = sys.argv[1:]
array = tiermap.map(folder + "/data", np.float64, (512, MIB // 8), mode="w", budget="64MiB")
for index in range(512):
    array[index] = index
array.sync()
assert array.mean() == 255.5
assert set(array[random.permutation(512)[:100], 5]) <= set(range(512))
print("done")
"""
    (tmp_path / "script.py").write_text(text)
    try:
        with MemoryLimit(256 * MIB) as limit:
            with open(tmp_path / "said", "wb") as said:
                process = limit.start([sys.executable, tmp_path / "script.py", tmp_path], stdout=said, stderr=said)
                code = process.wait(timeout=120)
    except LimitUnavailable as reason:
        pytest.skip(str(reason))
    output = pathlib.Path(tmp_path / "said").read_text()
    assert code == 0 and output == "done\n", (code, output)


def test_creating_and_filling_takes_the_budget_and_no_more(tmp_path, program):
    """numpy#7732."""
    ended = program(MEASURE + """
    folder, = sys.argv[1:]
    before = status("VmRSS")
    array = tiermap.memmap(folder + "/test.np", shape=(64, 1000, 1000), dtype=float, mode="write", budget="64MiB")
    array[:] = 1.2
    print(before, status("VmHWM"))
    assert array[63, 999, 999] == 1.2 and array[0, 0, 0] == 1.2
    """, tmp_path)
    assert ended.code == 0, ended
    before, most = map(int, ended.output.split())
    assert most < before + 64 * MIB + 24 * MIB, (before, most)
    assert os.path.getsize(tmp_path / "test.np") == 512 * 10**6


@pytest.mark.parametrize("what", ["picked = array[chosen]", "array[chosen] = 7"])
def test_rows_chosen_by_booleans_take_no_list_of_their_numbers(tmp_path, program, what):
    """Which would be eight times as large as the booleans."""
    ended = program(MEASURE + f"""
    folder, = sys.argv[1:]
    make(folder + "/data", 32)
    array = tiermap.map(folder + "/data", mode="r+", budget="8MiB")
    chosen = np.ones(len(array), bool)
    picked = np.ones(len(array), np.uint8)
    before = status("VmHWM")
    {what}
    print(before, status("VmHWM"))
    assert array[-1] == picked[-1] or array[-1] == 7
    """, tmp_path)
    assert ended.code == 0, ended
    before, most = map(int, ended.output.split())
    assert most < before + 32 * MIB + 40 * MIB, (before, most)


def test_the_budget_can_shrink_at_once(tmp_path, program):
    ended = program(MEASURE + """
    folder, = sys.argv[1:]
    make(folder + "/data", 64)
    cache = tiermap.Cache("128MiB")
    array = cache.map(folder + "/data")
    array.sum()
    full = status("VmRSS")
    cache.budget = "16MiB"
    print(full, status("VmRSS"), cache.stats()["resident_bytes"])
    """, tmp_path)
    assert ended.code == 0, ended
    full, after, resident = map(int, ended.output.split())
    assert after < full - 40 * MIB and resident <= 16 * MIB
