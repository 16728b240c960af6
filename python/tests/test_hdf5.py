"""Datasets of HDF5 files as arrays, beside what h5py says they are."""

import errno
import gc

import numpy as np
import pytest

import tiermap
from conftest import known, open_first_beside_forks

h5py = pytest.importorskip("h5py")


@pytest.fixture
def snapshot(tmp_path):
    """A file of datasets of several layouts, and what they hold."""
    values = known(60 * 70 * 80, np.float32).reshape(60, 70, 80)
    records = np.zeros(5000, [("id", "<u8"), ("mass", "<f4")])
    records["id"] = known(5000, np.uint64)
    held = {"plain": values, "packed": values, "swapped": known(999, ">i4"), "records": records,
            "complex": known(100).astype("c16"), "flags": known(4000) % 2 == 0}
    with h5py.File(tmp_path / "snapshot.h5", "w", libver=("earliest", "v110")) as file:
        for name, array in held.items():
            packing = dict(chunks=(16, 16, 16), compression="gzip", shuffle=True) if name == "packed" else {}
            file.create_dataset(f"group/{name}", data=array, **packing)
    url = f"hdf5:{tmp_path}/snapshot.h5:/group/"
    try:
        tiermap.map(url + "plain")
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip(str(error))
        raise
    return tmp_path / "snapshot.h5", url, held


def test_datasets_are_arrays_of_their_type_and_shape(snapshot):
    _, url, held = snapshot
    for name, values in held.items():
        dtype = values.dtype if values.dtype.fields else None
        array = tiermap.map(url + name, dtype, budget="1MiB", page_size="16KiB")
        assert array.dtype == values.dtype and array.shape == values.shape, name
        assert np.array_equal(array, values), name


@pytest.mark.parametrize("name", ["plain", "packed"])
def test_what_is_written_is_there_for_h5py(snapshot, name):
    path, url, held = snapshot
    array = tiermap.map(url + name, mode="r+", budget="1MiB")
    array[7:50, ::3] *= -1
    array.sync()
    del array
    gc.collect()
    held[name][7:50, ::3] *= -1
    with h5py.File(path) as file:
        assert np.array_equal(file["group"][name], held[name])
        assert file["group"][name].compression == (None if name == "plain" else "gzip")


def test_relative_names_and_other_spellings(snapshot, monkeypatch):
    path, url, held = snapshot
    monkeypatch.chdir(path.parent)
    array = tiermap.map("hdf5:snapshot.h5:group/plain", mode="r+")
    monkeypatch.chdir("/")
    assert np.array_equal(array, held["plain"])
    array[0, 0, 0] = 5
    assert tiermap.map(url + "pl%61in", mode="r+")[0, 0, 0] == 5


@pytest.mark.parametrize("arguments, error", [
    (dict(dtype="f8"), ValueError), (dict(shape=(5,)), ValueError), (dict(offset=4), ValueError),
    (dict(mode="w", shape=5), OSError)])
def test_what_does_not_fit_is_refused(snapshot, arguments, error):
    _, url, _ = snapshot
    with pytest.raises(error):
        tiermap.map(url + "plain", **arguments)


def test_raw_bytes_on_request(snapshot):
    _, url, held = snapshot
    assert np.array_equal(tiermap.map(url + "packed", format="raw"), held["packed"].ravel().view(np.uint8))


def test_what_is_not_there_is_named(snapshot):
    _, url, _ = snapshot
    with pytest.raises(FileNotFoundError, match="choose among /group/complex, /group/flags"):
        tiermap.map(url + "none")


def test_a_child_opens_one_that_is_forked_beside_the_first_opening(snapshot):
    assert open_first_beside_forks(snapshot[1] + "plain") == [0] * 8
