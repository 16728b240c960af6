"""A file that is mapped is made longer, or anew: what its live arrays have is as with numpy, or it is refused."""

import concurrent.futures
import gc
import multiprocessing

import numpy as np
import pytest

import tiermap

KINDS = [np.memmap, tiermap.memmap]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_grows_under_a_live_array(zeros, kind):
    path = zeros(5000)
    first = kind(path, mode="r+")
    first[0] = 1
    longer = kind(path, mode="r+", shape=10000)
    longer[1], first[2], longer[4999], longer[5000] = 2, 3, 4, 5
    assert longer[:3].tolist() == first[:3].tolist() == [1, 2, 3] and first[4999] == 4
    del first
    gc.collect()
    longer[9999] = 6
    del longer
    gc.collect()
    read = np.fromfile(path, np.uint8)
    assert read[[0, 1, 2, 4999, 5000, 9999]].tolist() == [1, 2, 3, 4, 5, 6] and read.size == 10000 and read.sum() == 21


def test_where_a_trace_is_asked_for_a_reader_and_a_writer_are_not_the_kernels(program, zeros, tmp_path):
    """Which has none."""
    ended = program("""
        import sys, tiermap
        reader = tiermap.map(sys.argv[1], budget="1MiB")
        before = int(reader[5])
        writer = tiermap.map(sys.argv[1], mode="r+")
        writer[5] = 5
        print(before, writer[5])
    """, zeros(1 << 20), TIERMAP_TRACE=str(tmp_path / "trace"))
    assert ended.output == "0 5\n", ended


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_grows_round_by_round(tmp_path, kind):
    """As a script does that keeps what it has in one variable, by sizes that end within blocks."""
    array = kind(tmp_path / "out.bin", dtype=np.int64, mode="w+", shape=1000)
    sizes = [1000, 1300, 5000, 100_000, 100_001]
    array[:] = 1000
    for before, after in zip(sizes, sizes[1:]):
        array = kind(tmp_path / "out.bin", dtype=np.int64, mode="r+", shape=after)
        assert array[before - 1] == before and not array[before:].any()
        array[before:] = after
    del array
    gc.collect()
    assert np.array_equal(np.fromfile(tmp_path / "out.bin", np.int64), np.repeat(sizes, np.diff(sizes, prepend=0)))


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_that_reaches_into_what_another_writes_sees_it(zeros, kind):
    path = zeros(10_000)
    middle = kind(path, mode="r+", offset=4096, shape=4096)
    with open(path, "r+b") as file:
        file.truncate(20_000)
    writer = kind(path, mode="r+", offset=8000, shape=12_000)
    reader = kind(path, mode="r")
    middle[-1], writer[0], writer[2000] = 1, 2, 3
    assert reader[[8191, 8000, 10_000]].tolist() == [1, 2, 3] and writer[191] == 1


def test_growing_under_a_live_array_that_serves_itself_is_refused_and_changes_nothing(zeros):
    path = zeros(5000)
    cache = tiermap.Cache("64MiB", fault_mode="self-serving")
    first = cache.map(path, mode="r+")
    first[0] = 1
    with pytest.raises(OSError, match="zeros.bin is mapped for writing from byte 0 to 5000.*delete those arrays first"):
        tiermap.memmap(path, mode="r+", shape=10000)
    with pytest.raises(OSError, match="to be replaced by 2000 bytes: delete those arrays first"):
        tiermap.memmap(path, mode="w+", shape=2000)
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
@pytest.mark.parametrize("kind", KINDS)
def test_w_plus_of_another_size_over_a_live_array_gives_zeros_to_both(tmp_path, size, kind):
    path = tmp_path / "out.bin"
    array = kind(path, mode="w+", shape=1000)
    array[:] = 1
    other = kind(path, mode="w+", shape=size)
    assert not other.any() and not array[:500].any()
    array[1], other[2] = 2, 3
    assert array[:3].tolist() == other[:3].tolist() == [0, 2, 3]
    del array, other
    gc.collect()
    read = np.fromfile(path, np.uint8)
    assert read[:3].tolist() == [0, 2, 3] and read.size == size


@pytest.mark.parametrize("kind", KINDS)
def test_w_plus_of_fewer_pages_over_a_live_array_cuts_the_file_off(tmp_path, kind):
    """What was behind the new end is nowhere, whoever ends first."""
    path = tmp_path / "out.bin"
    array = kind(path, mode="w+", shape=1 << 20)
    array[:] = 1
    array = kind(path, mode="w+", shape=5000)
    array[:] = 2
    del array
    gc.collect()
    read = np.fromfile(path, np.uint8)
    assert read.size == 5000 and (read == 2).all()


def fill_chunk(path, chunk, bytes_of_chunk):
    array = tiermap.memmap(path, np.uint8, "r+", shape=(chunk + 1) * bytes_of_chunk)
    array[chunk * bytes_of_chunk:] = chunk + 1
    array.flush()


def test_workers_that_make_one_file_longer_at_a_time(tmp_path):
    """Each to the size that it needs: whoever wants less, and has seen the file when it was shorter, cuts nothing off."""
    path, chunks, bytes_of_chunk = tmp_path / "grown.bin", 100, 20_000
    for _ in range(4):
        path.write_bytes(b"\0")
        with concurrent.futures.ProcessPoolExecutor(4, mp_context=multiprocessing.get_context("fork")) as workers:
            tasks = [workers.submit(fill_chunk, path, chunk, bytes_of_chunk) for chunk in range(chunks)]
            for task in tasks:
                task.result(100)
        assert np.array_equal(np.fromfile(path, np.uint8), np.repeat(np.arange(1, chunks + 1), bytes_of_chunk))
