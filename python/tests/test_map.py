"""tiermap.map(): the bytes that come are those of the store, whatever it is."""

import gc
import os
import pickle

import numpy as np
import pytest

import tiermap
from tiermap import _core, _store_url
from conftest import MIB, known


def test_raw_file_is_an_ndarray(numbers):
    path, values = numbers
    array = tiermap.map(path, np.int64, budget="1MiB")
    assert isinstance(array, np.ndarray)
    assert array.shape == values.shape and array.dtype == values.dtype
    assert np.array_equal(array, values)
    assert array.filename == str(path) and array.mode == "r" and array.offset == 0


def test_bytes_are_the_default_type(numbers):
    path, values = numbers
    assert np.array_equal(tiermap.map(path), values.view(np.uint8))


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_in_either_order(tmp_path, order):
    values = np.asarray(known(60 * 70 * 8, np.float64).reshape(60, 70, 8), order=order)
    np.save(tmp_path / "array.npy", values)
    array = tiermap.map(tmp_path / "array.npy", budget="1MiB")
    assert np.array_equal(array, values)
    assert array.flags.c_contiguous == (order == "C") and array.flags.f_contiguous == (order == "F")


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_version(tmp_path, version):
    values = known(5000, np.int32)
    with open(tmp_path / "array.npy", "wb") as file:
        np.lib.format.write_array(file, values, version=version)
    assert np.array_equal(tiermap.map(tmp_path / "array.npy"), values)


@pytest.mark.parametrize("said", ["(50L, 100L)", "(50, 100L)", "(5000L,)"])
def test_npy_that_python_2_wrote(tmp_path, said):
    """It marked long numbers with an L. A name that looks like one means itself."""
    dtype = np.dtype([("a1L", "<i4"), ("5L", "<i4")])
    header = f"{{'descr': {dtype.descr}, 'fortran_order': False, 'shape': {said}, }}"
    header += " " * (117 - len(header)) + "\n"
    values = known(10000, np.int32).view(dtype)
    beginning = b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header.encode()
    (tmp_path / "array.npy").write_bytes(beginning + values.tobytes())
    array = tiermap.map(tmp_path / "array.npy")
    assert np.array_equal(array.reshape(-1), values) and array.ndim == 1 + said.count(", ")


@pytest.mark.parametrize("url", ["npy://{}", "NPY:{}", "npy:{}?direct=off", "npy:array%20[1]*"])
def test_npy_by_its_url(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "array [1]*"
    values = known(3000, np.int32).reshape(300, 10)
    with open(path, "wb") as file:
        np.save(file, values)
    where = url.format(str(path).replace(" ", "%20"))
    array = tiermap.map(where, mode="r+", budget="1MiB")
    assert array.dtype == np.int32 and np.array_equal(array, values)
    array[7] = 0
    again = pickle.loads(pickle.dumps(array))
    assert np.array_equal(again, array)
    assert np.shares_memory(array, tiermap.map(path, np.int32, mode="r+", format="npy"))
    del array, again
    gc.collect()
    assert (np.load(path)[7] == 0).all()
    with pytest.raises(ValueError, match="whole file by its path"):
        tiermap.memmap(where)


def test_npy_is_made_by_its_url(tmp_path):
    array = tiermap.map(f"npy:{tmp_path}/made", np.int16, (4, 5), mode="w")
    array[:] = 3
    array.sync()
    assert np.array_equal(np.load(tmp_path / "made"), np.full((4, 5), 3, np.int16))


def test_names_are_any_bytes(tmp_path):
    name = os.fsencode(tmp_path) + b"/Stra\xdfe.npy"
    values = known(3000)
    with open(name, "wb") as file:
        np.save(file, values)
    array = tiermap.map(name, mode="r+")
    assert np.array_equal(array, values) and np.array_equal(pickle.loads(pickle.dumps(array)), values)
    assert array.filename == os.fsdecode(name)
    with pytest.raises(FileNotFoundError) as caught:
        tiermap.map(name + b".gone")
    assert os.fsdecode(name) in str(caught.value)
    with pytest.raises(OSError):
        tiermap.open_heap(name)


def test_the_schemes_are_the_librarys():
    with pytest.raises(OSError, match="scheme 'none' is unknown: choose among " + ", ".join(_store_url.SCHEMES)):
        _core.open_store("none:x", "read")


def test_structured_types(tmp_path):
    values = np.zeros(1000, dtype=[("id", "<i4"), ("place", "<f8", (3,)), ("name", "S5")])
    values["id"], values["name"] = np.arange(1000), b"abc"
    np.save(tmp_path / "table.npy", values)
    array = tiermap.map(tmp_path / "table.npy")
    assert array.dtype == values.dtype and np.array_equal(array, values)


@pytest.mark.parametrize("offset", [0, 8, 4096, 4097, 12345])
def test_raw_data_from_any_offset(tmp_path, offset):
    values = known(20000, np.uint16)
    (tmp_path / "raw").write_bytes(b"x" * offset + values.tobytes())
    array = tiermap.map(tmp_path / "raw", np.uint16, offset=offset)
    assert np.array_equal(array, values) and array.offset == offset


def test_shape_and_order_of_raw_data(numbers):
    path, values = numbers
    array = tiermap.map(path, np.int64, (100, 50), order="F")
    assert np.array_equal(array, values[:5000].reshape((100, 50), order="F"))


def test_concat_pieces_are_one_array(tmp_path):
    parts = [known(3000, np.int64, start) for start in (0, 3000, 6000)]
    for index, part in enumerate(parts):
        part.tofile(tmp_path / f"part{index}.bin")
    url = "concat:" + ",".join(str(tmp_path / f"part{index}.bin") for index in range(3))
    assert np.array_equal(tiermap.map(url, np.int64), np.concatenate(parts))
    assert np.array_equal(tiermap.map(f"file://{tmp_path}/part*.bin", np.int64), np.concatenate(parts))


def test_sparse_store_is_made_written_and_read(tmp_path):
    url = f"sparse://{tmp_path}/store?segment=1MiB&capacity=64MiB"
    array = tiermap.map(url, np.float64, (1000, 1000), mode="w", budget="1MiB")
    array[500] = 2.5
    array.sync()
    del array
    gc.collect()
    again = tiermap.map(f"sparse://{tmp_path}/store", np.float64, (1000, 1000))
    assert again.sum() == 2500 and again[500, 0] == 2.5


def test_memory_store():
    array = tiermap.map("memory:4MiB", np.int32, mode="r+", budget="1MiB")
    array[:] = known(MIB, np.int32)
    assert np.array_equal(array, known(MIB, np.int32))


def test_npy_is_written_with_its_header(tmp_path):
    path = tmp_path / "made.npy"
    array = tiermap.map(path, np.float32, (300, 40), mode="w", order="F")
    array[:] = np.arange(12000).reshape(300, 40)
    array.sync()
    loaded = np.load(path)
    assert loaded.flags.f_contiguous and np.array_equal(loaded, np.arange(12000).reshape(300, 40))


def test_npy_of_elements_that_are_arrays_is_read_as_what_it_was_made(tmp_path):
    """In the header such elements would be bytes."""
    made = tiermap.map(tmp_path / "x.npy", ("<f4", (3,)), (5, 2), "w", budget="1MiB")
    made[:] = np.arange(30).reshape(5, 2, 3)
    del made
    for read in tiermap.map(tmp_path / "x.npy", budget="1MiB"), np.load(tmp_path / "x.npy"):
        assert read.dtype == np.float32 and np.array_equal(read, np.arange(30).reshape(5, 2, 3))
    with pytest.raises(ValueError, match="Fortran order"):
        tiermap.map(tmp_path / "y.npy", ("<f4", (3,)), (5, 2), "w", order="F")
    assert not (tmp_path / "y.npy").exists()


def test_what_was_written_reaches_the_file_when_the_last_view_goes(numbers):
    path, values = numbers
    array = tiermap.map(path, np.int64, mode="r+")
    view = array[1000:2000][::-1]
    view[0] = -7
    del array
    gc.collect()
    assert view[0] == -7
    del view
    gc.collect()
    values[1999] = -7
    assert np.array_equal(np.fromfile(path, np.int64), values)


def test_memory_is_given_back_when_the_last_view_dies(numbers):
    cache = tiermap.Cache("1MiB")
    array = cache.map(numbers[0], np.int64)
    address = f"{array.__array_interface__['data'][0]:x}-"
    assert address in open("/proc/self/maps").read()
    view = np.asarray(array[5:])[::3].reshape(-1, 1)
    del array
    gc.collect()
    assert len(cache.mappings) == 1 and view[0, 0] == numbers[1][5]
    del view
    gc.collect()
    assert cache.mappings == [] and address not in open("/proc/self/maps").read()


def test_a_private_copy_keeps_its_changes_to_itself(numbers):
    path, values = numbers
    array = tiermap.map(path, np.int64, mode="c", budget="1MiB")
    array += 1
    assert np.array_equal(array, values + 1)
    del array
    gc.collect()
    assert np.array_equal(np.fromfile(path, np.int64), values)


def test_writing_twice_in_one_process_is_one_mapping(numbers):
    writer = tiermap.map(numbers[0], np.int64, mode="r+")
    reader = tiermap.map(numbers[0], np.int64)
    writer[3] = 99
    assert reader[3] == 99
    with pytest.raises(ValueError):
        reader[3] = 1


def test_threads_that_map_one_file_for_writing_share_it(numbers):
    import threading

    cache = tiermap.Cache("4MiB")
    start, arrays = threading.Barrier(8), []

    def map_it():
        start.wait()
        arrays.append(cache.map(numbers[0], np.int64, mode="r+"))

    threads = [threading.Thread(target=map_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(arrays) == 8 and len(cache.mappings) == 1


def test_arrays_without_elements(tmp_path):
    np.save(tmp_path / "none.npy", np.zeros((0, 5)))
    assert tiermap.map(tmp_path / "none.npy").shape == (0, 5)
    np.save(tmp_path / "one.npy", np.float64(7))
    assert tiermap.map(tmp_path / "one.npy")[()] == 7


def made_empty(kind, folder):
    """An array of no elements, of each kind there is."""
    if kind == "view":
        return tiermap.map(folder / "some.npy", "f4", (10, 64), mode="w", budget="1MiB")[5:5]
    array = tiermap.map(folder / "none.npy", "f4", (64, 0) if kind == "rows of nothing" else (0, 64), mode="w")
    return tiermap.map(folder / "none.npy") if kind == "read-only" else array[:] if kind == "view of none" else array


@pytest.mark.parametrize("kind", ["made", "read-only", "view", "view of none", "rows of nothing"])
def test_operations_on_no_elements_do_nothing(tmp_path, kind):
    empty = made_empty(kind, tmp_path)
    for array in (empty, np.asarray(empty)):
        tiermap.sync(array)
        tiermap.sync(array, progress=lambda done, total: pytest.fail("nothing to tell"))
        tiermap.flush(array)
        tiermap.drop(array)
        tiermap.advise(array, "random")
        with pytest.raises(ValueError, match="often"):
            tiermap.advise(array, "often")
        started = tiermap.prefetch(array, wait=True)
        assert started.wait() == 0 and started.done
        with tiermap.pin(array) as held:
            tiermap.unpin(held)
        assert tiermap.stats(array)["read_bytes"] == 0 and "read_faults" in str(tiermap.stats(array))
        assert list(tiermap.blocks(array)) == [] == list(tiermap.blocks(array, cache=False))
    for call in (empty.sync, empty.flush, empty.drop, empty.prefetch, empty.pin, empty.stats,
                 lambda: empty.advise("will_need")):
        call()
    with pytest.raises(TypeError, match="not mapped"):
        tiermap.sync(np.zeros((0, 64)))


@pytest.mark.parametrize("kind", ["made", "read-only", "view", "view of none", "rows of nothing"])
def test_arrays_without_elements_know_where_they_are_from(tmp_path, kind):
    empty = made_empty(kind, tmp_path)
    name = "some.npy" if kind == "view" else "none.npy"
    for view in (empty, empty[:], empty.T, empty.reshape(0, 7), empty.view("u1"), empty[::-1]):
        assert type(view) is tiermap.Array and view.size == 0
        assert view.filename == str(tmp_path / name) and view.offset == 128
        assert view.mode == ("r" if kind == "read-only" else "w+")
        assert view.flags.writeable == (kind != "read-only")
    if kind == "read-only":
        with pytest.raises(ValueError):
            empty.flags.writeable = True
    for result in (empty + 1, np.sqrt(empty), empty.sum(axis=0), empty.copy(), empty[empty > 0], empty.sum(axis=1)):
        assert type(result) is np.ndarray
    if kind != "read-only":
        empty += 1
        empty[:] = 3
    assert np.array_equal(pickle.loads(pickle.dumps(empty)), empty)


def test_empty_views_keep_the_memory_and_are_pickled(numbers):
    array = tiermap.map(numbers[0], np.int64, budget="1MiB")
    cache = array._mapping.cache
    for view in (array[5:5], array[len(array):], array[::-1][len(array):], array[:0]):
        sent = pickle.loads(pickle.dumps(view))
        assert type(sent) is tiermap.Array and sent.shape == (0,) and sent._mapping is array._mapping
    del array, sent
    gc.collect()
    assert len(cache.mappings) == 1 and view.stats()["budget_bytes"] == MIB
    del view
    gc.collect()
    assert cache.mappings == []


@pytest.mark.parametrize("fault_mode", ["notify", "self-serving"])
@pytest.mark.parametrize("view", [lambda array: array[:], lambda array: array[::-2, 3:], lambda array: array[5:5],
                                  lambda array: array[:200].T, lambda array: array[7, 7:8].reshape(())])
def test_saved_where_system_calls_take_no_absent_memory(rows, tmp_path, fault_mode, view):
    array = tiermap.map(rows[0], cache=tiermap.Cache("1MiB", fault_mode=fault_mode))
    np.save(tmp_path / "saved.npy", view(array))
    view(array).tofile(tmp_path / "raw")
    with open(tmp_path / "opened", "wb") as file:
        file.write(b"before")
        view(array).tofile(file)
        file.write(b"after")
    expected = view(rows[1])
    assert np.array_equal(np.load(tmp_path / "saved.npy"), expected)
    assert (tmp_path / "raw").read_bytes() == expected.tobytes()
    assert (tmp_path / "opened").read_bytes() == b"before" + expected.tobytes() + b"after"


def test_buffers_of_read_and_write_calls_may_be_mapped(tmp_path, numbers):
    """System calls are handed pages that are not in memory."""
    path, values = numbers
    array = tiermap.map(path, np.int64, budget="1MiB")
    array.tofile(tmp_path / "copy.bin")
    assert np.array_equal(np.fromfile(tmp_path / "copy.bin", np.int64), values)
    target = tiermap.map(tmp_path / "target.bin", np.int64, len(values), mode="w", budget="1MiB")
    with open(path, "rb") as file:
        assert file.readinto(memoryview(target).cast("B")) == values.nbytes
    assert np.array_equal(target, values)
