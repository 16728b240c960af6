"""Rows picked by arrays of integers or booleans: whatever is read ahead, the result is numpy's."""

import numpy as np
import pytest

import tiermap
from conftest import known
from tiermap._mapping import Mapping


@pytest.mark.parametrize("shape, dtype", [((20000,), np.int64), ((4096, 300), np.float32), ((700, 3, 40), np.int16),
                                          ((300, 5000), np.uint8), ((50, 1), np.float64), ((40, 0), np.int8)])
@pytest.mark.parametrize("pages", ["auto", "4KiB", "64KiB"])
def test_random_indexes(tmp_path, shape, dtype, pages):
    values = known(int(np.prod(shape)), dtype).reshape(shape)
    np.save(tmp_path / "rows.npy", values)
    array = tiermap.map(tmp_path / "rows.npy", budget="1MiB", page_size=pages)
    random = np.random.default_rng(1)
    for count in (0, 1, 4, 100, 1500):
        rows = random.integers(-len(values), len(values), count)
        found = array[rows]
        assert type(found) is np.ndarray and found.dtype == values.dtype
        assert np.array_equal(found, values[rows])
        assert np.array_equal(array.take(rows, axis=0), values.take(rows, axis=0))
        assert np.array_equal(np.take(array, rows, axis=0, mode="wrap"), np.take(values, rows, axis=0, mode="wrap"))
        assert np.array_equal(array[rows.astype(np.int16)], values[rows.astype(np.int16)])
        assert np.array_equal(array[rows.tolist()], values[rows.tolist()]) or count == 0
    chosen = random.random(len(values)) < 0.3
    assert np.array_equal(array[chosen], values[chosen])


def test_indexes_that_are_wrong(rows):
    array = tiermap.map(rows[0], budget="1MiB")
    for wrong in ([0, 1, 2, 4096], [0, 1, 2, -4097], np.ones(5, bool), [0.5, 1, 2, 3, 4]):
        with pytest.raises(IndexError):
            array[wrong]
    with pytest.raises(IndexError):
        array.take([1, 2, 3, 5000], axis=0)


def test_to_take_booleans_are_numbers(rows):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    for chosen in (np.arange(len(values)) % 3 == 0, [True, False, True, True], np.array([False])):
        for axis in (0, 1, None):
            assert np.array_equal(array.take(chosen, axis=axis), values.take(chosen, axis=axis))


def test_other_indexes_are_numpys(rows):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    for index in (5, slice(5, 9), (slice(None), 7), (np.array([1, 2, 3, 4, 5]), 7), np.array([[1, 2], [3, 4]]), ...,
                  (None, 3), np.array(3), [[1, 2, 3, 4, 5], [5, 4, 3, 2, 1]], np.uint64(4)):
        if isinstance(index, list):
            index = tuple(index)
        assert np.array_equal(array[index], values[index])


def test_views_that_are_not_rows(rows):
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    picked = np.array([5, 3, 200, 7, 8, 250])
    for view in (lambda a: a.T, lambda a: a[::-1], lambda a: a[:, 10:20], lambda a: a[::7], lambda a: a[:, ::2]):
        assert np.array_equal(view(array)[picked], view(values)[picked])


@pytest.mark.parametrize("dtype, offset, view", [
    ("<i8", 0, lambda array: array[::3]),
    ("<i8", 0, lambda array: array.reshape(-1, 64)[:, 3:40]),
    (">i8", 0, lambda array: array),
    (">i8", 0, lambda array: array.reshape(-1, 8)),
    ("<i8", 3, lambda array: array),
    ([("a", ">i4"), ("b", "<f4")], 0, lambda array: array),
    ([("a", "<i4"), ("b", "<f4")], 0, lambda array: array["b"]),
], ids=["steps", "columns", "big-endian", "big-endian rows", "unaligned", "big-endian fields", "a field"])
def test_picking_rows_reads_those_alone(tmp_path, dtype, offset, view):
    """Not all of the array, which may be larger than memory, to make a copy that is easier to pick from."""
    values = np.random.default_rng(4).integers(0, 1 << 20, 1 << 19).astype(np.int64)
    (tmp_path / "numbers.bin").write_bytes(bytes(offset) + values.tobytes())
    expected = view(np.frombuffer(values.tobytes(), dtype))
    array = view(tiermap.map(tmp_path / "numbers.bin", dtype, offset=offset, budget="1MiB", page_size="4KiB",
                             read_ahead=0))
    picked = np.random.default_rng(5).integers(0, len(array), 40)
    for pick in (lambda of: of[picked], lambda of: of.take(picked, axis=0)):
        assert np.array_equal(pick(array), pick(expected))
    assert 0 < tiermap.stats(array)["fills"] <= 2 * 2 * len(picked), tiermap.stats(array)


def test_scattered_writes(rows):
    path, values = rows
    array = tiermap.map(path, mode="r+", budget="1MiB")
    expected = values.copy()
    picked = np.random.default_rng(2).permutation(4096)[:3000]
    array[picked] = picked[:, None]
    expected[picked] = picked[:, None]
    array[picked[:500]] += 1
    expected[picked[:500]] += 1
    array.sync()
    assert np.array_equal(np.load(path), expected)


def test_rows_are_fetched_before_they_are_touched(tmp_path):
    """Most of the pages come by prefetch, many at once, and not by one fault after the other."""
    values = known(4 << 20, np.int64).reshape(-1, 512)
    np.save(tmp_path / "rows.npy", values)
    array = tiermap.map(tmp_path / "rows.npy", budget="4MiB", page_size="4KiB")
    picked = np.random.default_rng(3).permutation(len(values))[:2000]
    assert np.array_equal(array[picked], values[picked])
    counted = array.stats()
    assert counted["prefetched_pages"] > 3000 and counted["read_faults"] < 1000
    assert counted["resident_bytes"] <= 4 << 20


@pytest.mark.parametrize("pick", [lambda rows: rows, np.flatnonzero, lambda rows: np.flatnonzero(rows) - len(rows)],
                         ids=["booleans", "in order", "from the end"])
@pytest.mark.parametrize("shape", [(1 << 19,), (1 << 17, 4)])
def test_rows_that_share_pages_are_asked_for_together(tmp_path, monkeypatch, shape, pick):
    """Not some rows at a time, however many there are in a page."""
    values = known(1 << 19, np.int64).reshape(shape)
    values.tofile(tmp_path / "numbers.bin")
    array = tiermap.map(tmp_path / "numbers.bin", np.int64, shape, budget="1MiB")
    calls = []
    ask = Mapping.prefetch_rows
    monkeypatch.setattr(Mapping, "prefetch_rows", lambda *arguments: calls.append(1) or ask(*arguments))
    picked = pick(np.arange(len(values)) % 3 > 0)
    assert np.array_equal(array[picked], values[picked])
    assert 0 < len(calls) <= values.nbytes // array._mapping.page_size, len(calls)


def test_booleans_of_which_few_are_true(tmp_path):
    values = known(1 << 20, np.uint8)
    values.tofile(tmp_path / "bytes.bin")
    array = tiermap.map(tmp_path / "bytes.bin", budget="256KiB", page_size="4KiB")
    for step in (1 << 20, 300_000, 5000, 7):
        chosen = np.arange(1 << 20) % step == step - 1
        assert np.array_equal(array[chosen], values[chosen])
    assert array[np.zeros(1 << 20, bool)].shape == (0,)
