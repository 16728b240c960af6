"""One file mapped more than once in one process: no write is lost, or it is refused."""

import gc
import threading
import time

import numpy as np
import pytest

import tiermap
from conftest import known

KINDS = [np.memmap, tiermap.memmap]


@pytest.fixture
def zeros(tmp_path):
    """Makes a file of zeros."""
    def make(size, name="zeros.bin"):
        np.zeros(size, np.uint8).tofile(tmp_path / name)
        return tmp_path / name

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_a_part_is_mapped_before_the_whole(zeros, kind):
    path = zeros(8192)
    part = kind(path, mode="r+", offset=4096, shape=100)
    part[0] = 1
    whole = kind(path, mode="r+")
    whole[4097] = 2
    part[2] = 3
    assert whole[4096] == 1 and part[1] == 2
    del part, whole
    gc.collect()
    assert np.fromfile(path, np.uint8)[4096:4100].tolist() == [1, 2, 3, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_meet_within_a_block(zeros, kind):
    """A script that goes on while the array of the last round lives."""
    path = zeros(10 * 1000)
    for index in range(10):
        part = kind(path, mode="r+", offset=index * 1000, shape=1000)
        part[:] = index
    del part
    gc.collect()
    assert np.array_equal(np.fromfile(path, np.uint8), np.repeat(np.arange(10), 1000))


def test_growing_under_a_live_array_is_refused_and_changes_nothing(zeros):
    path = zeros(5000)
    first = tiermap.memmap(path, mode="r+")
    first[0] = 1
    with pytest.raises(OSError, match="zeros.bin is mapped for writing from byte 0 to 5000.*delete those arrays first"):
        tiermap.memmap(path, mode="r+", shape=10000)
    assert path.stat().st_size == 5000
    first[2] = 3
    del first
    gc.collect()
    longer = tiermap.memmap(path, mode="r+", shape=10000)
    assert longer[:4].tolist() == [1, 0, 3, 0] and path.stat().st_size == 10000


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_grows_by_whole_blocks_behind_live_arrays(zeros, kind):
    path = zeros(8192)
    parts = [kind(path, mode="r+")]
    for index in range(1, 4):
        parts.append(kind(path, mode="r+", offset=8192 * index, shape=8192))
        parts[index][:] = index
        parts[index - 1][-1] = 100
    del parts
    gc.collect()
    expected = np.repeat(np.arange(4), 8192)
    expected[8191::8192][:3] = 100
    assert np.array_equal(np.fromfile(path, np.uint8), expected)


def test_a_file_that_cannot_be_mapped_longer_stays_as_it_was(zeros):
    path = zeros(5000)
    with pytest.raises(ValueError, match="power of two"):
        tiermap.memmap(path, mode="r+", shape=10000, page_size=5000)
    assert path.stat().st_size == 5000


def test_what_is_no_plain_file_is_shared_or_refused(tmp_path):
    for index in range(2):
        known(2048).tofile(tmp_path / f"part{index}.bin")
    url = f"concat:{tmp_path}/part0.bin,{tmp_path}/part1.bin"
    part = tiermap.map(url, np.int64, 1000, mode="r+", offset=8192)
    inside = tiermap.map(url, np.int64, 10, mode="r+", offset=8200)
    inside[0] = 5
    assert part[1] == 5
    with pytest.raises(OSError, match="mapped for writing"):
        tiermap.map(url, np.int64, mode="r+")


def test_advice_to_fetch_a_part_fetches_no_more(zeros):
    path = zeros(32 << 20)
    cache = tiermap.Cache("64MiB")
    array = cache.map(path, shape=1 << 20, mode="r+", offset=1 << 20, page_size="64KiB", advice="will_need")
    until = time.monotonic() + 30
    while cache.stats()["resident_bytes"] < 1 << 20 and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.1)
    assert array[0] == 0 and 1 << 20 <= cache.stats()["resident_bytes"] <= 4 << 20


@pytest.mark.parametrize("kind", KINDS)
def test_w_plus_over_a_live_array_gives_zeros_to_both(tmp_path, kind):
    first = kind(tmp_path / "out.bin", dtype="i4", mode="w+", shape=100_000)
    first[:] = 1
    first.flush()
    first[5] = 2
    reader = kind(tmp_path / "out.bin", dtype="i4", mode="r")
    assert reader[7] == 1
    second = kind(tmp_path / "out.bin", dtype="i4", mode="w+", shape=100_000)
    assert not second.any() and not first.any() and not reader.any()
    first[3] = 3
    second[4] = 4
    del first, second, reader
    gc.collect()
    assert np.fromfile(tmp_path / "out.bin", "i4")[:6].tolist() == [0, 0, 0, 3, 4, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_w_plus_under_a_reader_gives_it_zeros(zeros, kind):
    path = zeros(8192)
    path.write_bytes(b"x" * 8192)
    reader = kind(path, mode="r")
    assert reader[0] == ord("x")
    kind(path, mode="w+", shape=8192)
    assert not reader.any()


def test_overwriting_under_a_live_array_leaves_the_new_header(tmp_path):
    path = tmp_path / "out.npy"
    first = tiermap.map(path, np.int64, (30, 40), mode="w")
    first[:] = 1
    second = tiermap.map(path, np.float64, (40, 30), mode="w", overwrite=True)
    assert not second.any() and not first.any()
    second[:] = 2.5
    del first, second
    gc.collect()
    loaded = np.load(path)
    assert loaded.shape == (40, 30) and (loaded == 2.5).all()


@pytest.mark.parametrize("size", [500, 2000])
def test_w_plus_of_another_size_over_a_live_array_is_refused(tmp_path, size):
    path = tmp_path / "out.bin"
    array = tiermap.memmap(path, mode="w+", shape=1000)
    array[:] = 1
    with pytest.raises(OSError, match=f"to be replaced by {size} bytes: delete those arrays first"):
        tiermap.memmap(path, mode="w+", shape=size)
    array[1] = 2
    del array
    gc.collect()
    assert np.fromfile(path, np.uint8)[:3].tolist() == [1, 2, 1] and path.stat().st_size == 1000
    assert not tiermap.memmap(path, mode="w+", shape=size).any()


def test_a_reader_from_before_sees_what_was_written_after_flush_and_drop(numbers):
    """As docs/python.md says under its limits; one that came later sees it at once."""
    reader = tiermap.map(numbers[0], np.int64)
    assert reader[0] == numbers[1][0]
    writer = tiermap.map(numbers[0], np.int64, mode="r+")
    writer[0] = -9
    assert tiermap.map(numbers[0], np.int64)[0] == -9, "whichever mapping was found first"
    writer.flush()
    reader.drop()
    assert reader[0] == -9


def test_mapped_again_while_it_is_being_written_back(zeros):
    """Who maps a file whose last array has just gone sees what that held, and does not undo it."""
    path = zeros(64 << 10)
    rounds = 100

    def count(own):
        for _ in range(rounds):
            array = tiermap.map(path, np.uint8, mode="r+")
            array[own] += 1
            del array

    threads = [threading.Thread(target=count, args=(own,)) for own in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert tiermap.map(path, np.uint8)[:5].tolist() == [rounds] * 4 + [0]
