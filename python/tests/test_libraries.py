"""Libraries that take arrays, on a mapped one. Each is skipped by name where it is not installed."""

import os
import re
import shutil
import tempfile
import time

import numpy as np
import pytest

import tiermap
from conftest import known


@pytest.fixture
def clusters(tmp_path):
    """Three heaps of points, and where they lie."""
    random = np.random.default_rng(5)
    centres = np.array([[0, 0, 0, 0], [20, 20, 0, 0], [0, 20, 20, 40]], np.float32)
    points = (centres[random.integers(0, 3, 12000)] + random.normal(size=(12000, 4))).astype(np.float32)
    np.save(tmp_path / "points.npy", points)
    return tmp_path / "points.npy", points, centres


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask_goes_chunk_by_chunk(rows, scheduler):
    dask_array = pytest.importorskip("dask.array")
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    chunked = dask_array.from_array(array, chunks=(512, 300))
    sums, total = chunked.sum(axis=1), (chunked * 2).sum()
    found, all_of_it = sums.compute(scheduler=scheduler), total.compute(scheduler=scheduler)
    assert np.array_equal(found, values.sum(axis=1))
    assert np.isclose(all_of_it, (values.astype(float) * 2).sum(), rtol=1e-4)
    assert array._mapping.cache.stats()["resident_bytes"] <= 1 << 20


def test_dask_copies_nothing(rows):
    dask_array = pytest.importorskip("dask.array")
    array = tiermap.map(rows[0], mode="r+", budget="1MiB")
    chunked = dask_array.from_array(array, chunks=(512, 300))
    assert array.stats()["fills"] < 20
    array[600] = 7
    assert chunked[600].compute().tolist() == [7] * 300
    copied = array.copy()
    copied[0] = 5
    assert type(copied) is np.ndarray and array[0, 0] != 5


def test_dask_names_an_array_without_reading_it(rows):
    dask_array = pytest.importorskip("dask.array")
    time.sleep(0.05)  # Until the time stamp of the file tells it from another that is written next.
    array = tiermap.map(rows[0], budget="1MiB")
    first, second = (dask_array.from_array(array, chunks=(512, 300)) for _ in range(2))
    assert first.name == second.name
    assert array.stats()["fills"] < 20, "naming it read it"
    assert first.name != dask_array.from_array(array[1:], chunks=(512, 300)).name
    assert np.isclose(first.mean().compute(), rows[1].mean(), rtol=1e-4)


def test_dask_tells_a_file_from_what_has_its_name_now(tmp_path):
    dask_array = pytest.importorskip("dask.array")
    path, other = tmp_path / "rows.npy", tmp_path / "other.npy"
    np.save(path, np.arange(1000))
    np.save(other, np.arange(1000) + 5)
    before = tiermap.map(path)
    other.replace(path)
    first, second = (dask_array.from_array(array, chunks=300) for array in (before, tiermap.map(path)))
    assert int((second - first).sum().compute()) == 5000
    path.unlink()
    assert int(dask_array.from_array(before, chunks=300).sum().compute()) == 499500


def test_dask_tells_what_a_file_had_from_what_it_has(tmp_path):
    """Written anew in its place, it is the same file."""
    dask_array = pytest.importorskip("dask.array")
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(1000))
    before = tiermap.map(path)
    assert before[0] == 0
    np.save(path, np.arange(1000) + 5)
    first, second = (dask_array.from_array(array, chunks=300) for array in (before, tiermap.map(path)))
    assert int((second - first).sum().compute()) == 5000


def test_dask_tells_what_a_file_had_within_the_same_second(coarse_path):
    dask_array = pytest.importorskip("dask.array")
    names = set()
    for value in range(5):
        np.full(1000, value).tofile(coarse_path / "numbers.bin")
        array = tiermap.map(coarse_path / "numbers.bin", np.int64)
        names.add(dask_array.from_array(array, chunks=300).name)
        del array
    assert len(names) == 5


def mean_of(array):
    return float(np.mean(array)), type(array).__name__


@pytest.mark.parametrize("backend", ["loky", "threading", "multiprocessing"])
def test_joblib_workers_open_it_where_they_are(rows, backend):
    joblib = pytest.importorskip("joblib")
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    means = joblib.Parallel(n_jobs=2, backend=backend, max_nbytes=1000)(
        joblib.delayed(mean_of)(array[start:start + 1024]) for start in range(0, 4096, 1024))
    assert means == [(float(np.mean(values[start:start + 1024])), "Array") for start in range(0, 4096, 1024)]


def start_ray(ray, folder):
    """Ray gives its own processes 30 seconds to start, which are not always enough where others are at work."""
    for tries_left in (2, 1, 0):
        try:
            ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=80 << 20,
                     _temp_dir=folder)
            return
        except Exception as error:
            ray.shutdown()
            if tries_left == 0 or not re.search("timed out|deadline exceeded", str(error), re.IGNORECASE):
                raise


def test_ray_workers_open_it_where_they_are(rows, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    path, values = rows
    array = tiermap.map(path, budget="1MiB")
    # Not tmp_path: the path of a socket in there has to be short.
    folder = tempfile.mkdtemp(prefix="ray-")
    start_ray(ray, folder)
    try:
        @ray.remote
        def mean(part):
            return float(np.mean(part)), type(part).__name__, os.getpid()

        parts = ray.get([mean.remote(array[start:start + 1024]) for start in range(0, 4096, 1024)])
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    assert [part[:2] for part in parts] == [(float(np.mean(values[start:start + 1024])), "Array")
                                            for start in range(0, 4096, 1024)]
    assert os.getpid() not in [part[2] for part in parts]


def test_mini_batch_k_means_finds_the_clusters(clusters):
    cluster = pytest.importorskip("sklearn.cluster")
    path, points, centres = clusters
    array = tiermap.map(path, budget="128KiB")
    model = cluster.MiniBatchKMeans(3, batch_size=4096, random_state=0, n_init=1, max_iter=10).fit(array)
    found = sorted(model.cluster_centers_.round().tolist())
    assert np.allclose(found, sorted(centres.tolist()))
    in_memory = cluster.MiniBatchKMeans(3, batch_size=4096, random_state=0, n_init=1, max_iter=10).fit(points)
    assert np.allclose(model.cluster_centers_, in_memory.cluster_centers_)


def test_pandas_reads_columns(clusters):
    pandas = pytest.importorskip("pandas")
    path, points, _ = clusters
    frame = pandas.DataFrame(tiermap.map(path, budget="256KiB"), columns=list("abcd"), copy=False)
    assert np.isclose(frame["c"].mean(), points[:, 2].mean(), rtol=1e-4)
    assert frame[frame.a > 10].shape[0] == int((points[:, 0] > 10).sum())


def test_pyarrow_sees_it_without_a_copy(numbers):
    pyarrow = pytest.importorskip("pyarrow")
    path, values = numbers
    array = tiermap.map(path, np.int64, budget="1MiB")
    buffer = pyarrow.py_buffer(array)
    assert buffer.address == array.__array_interface__["data"][0] and buffer.size == array.nbytes
    column = pyarrow.Array.from_buffers(pyarrow.int64(), len(array), [None, buffer])
    del array
    assert column[12345].as_py() == values[12345]
