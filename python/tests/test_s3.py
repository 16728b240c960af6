"""Objects in S3 as arrays, on a server of the tests that checks signatures."""

import errno
import gc
import io
import pickle
import shutil
import subprocess
from urllib.parse import quote

import numpy as np
import pytest

import tiermap
from conftest import ROOT, known


class Server:
    """tests/s3/strict_server.py."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen([shutil.which("python3"), str(ROOT / "tests/s3/strict_server.py")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = self.process.stdout.readline().strip()

    def url(self, key, options="part=5MiB"):
        return f"s3://bucket/{key}?region=eu-test-1&pause=0.01&endpoint=http://127.0.0.1:{self.port}&{options}"

    def ask(self, *words):
        print(*words, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()

    def load(self, key, array, save=np.save):
        with open(self.folder / "object", "wb") as file:
            save(file, array)
        assert self.ask("load", "bucket", key, self.folder / "object") == "ok"

    def saved(self, key):
        said = self.ask("save", "bucket", key, self.folder / "object")
        return None if said == "none" else self.folder / "object"


@pytest.fixture
def server(tmp_path, monkeypatch):
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTIERMAP")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalr/XUtn+FEMI=K7MDENG")
    running = Server(tmp_path)
    try:
        tiermap.map(running.url("none"))
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip(str(error))
    yield running
    gc.collect()
    running.process.stdin.close()
    running.process.wait()


def raw(file, array):
    file.write(array.tobytes())


def test_arrays_of_numpy_and_raw_ones(server):
    values = known(300_000, np.float32).reshape(-1, 3)
    server.load("folder/rows.npy", values)
    server.load("raw", values, raw)
    server.load("named.otherwise", values)
    for where in (server.url("folder/rows.npy"), "npy:" + server.url("named.otherwise")):
        array = tiermap.map(where, budget="1MiB", page_size="64KiB")
        assert array.dtype == values.dtype and array.shape == values.shape
        assert np.array_equal(array, values)
    assert np.array_equal(tiermap.map(server.url("raw"), "f4", (100_000, 3)), values)
    assert np.array_equal(pickle.loads(pickle.dumps(tiermap.map(server.url("folder/rows.npy")))), values)


def fits(file, array):
    keys = {"SIMPLE": "T", "BITPIX": -32, "NAXIS": 2, "NAXIS1": array.shape[1], "NAXIS2": array.shape[0]}
    cards = [f"{key:8}= {value:>20}".ljust(80) for key, value in keys.items()] + ["END".ljust(80)]
    pixels = array.astype(">f4").tobytes()
    file.write("".join(cards).ljust(2880).encode() + pixels + bytes(-len(pixels) % 2880))


def text(file, array):
    np.savetxt(file, array, fmt="%.9g", delimiter=",")


def hdf5(file, array):
    h5py = pytest.importorskip("h5py")
    content = io.BytesIO()
    with h5py.File(content, "w") as made:
        made["plain"] = array
        made.create_dataset("group/packed", data=array, chunks=(999, 2), compression="gzip", shuffle=True)
    file.write(content.getvalue())


@pytest.mark.parametrize("key, save, options", [
    ("image.fits", fits, ""), ("image.fits:0", fits, "retries=3"), ("table.csv", text, "type=float32&retries=3"),
    ("file.h5:plain", hdf5, ""), ("file.h5:/group/packed", hdf5, "decoded=1MiB")])
def test_files_of_formats_in_objects_are_read(server, key, save, options):
    values = known(300_000, np.int32).reshape(-1, 3).astype(np.float32)
    server.load(key.partition(":")[0], values, save)
    where = {"i": "fits:", "t": "csv:", "f": "hdf5:"}[key[0]] + server.url(key, options)
    try:
        array = tiermap.map(where, budget="1MiB", page_size="64KiB")
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip(str(error))
        raise
    assert array.dtype == values.dtype and array.shape == values.shape
    assert np.array_equal(array, values)
    assert np.array_equal(pickle.loads(pickle.dumps(array)), values)
    copy = tiermap.map(where, mode="c")
    copy[0] = -1
    assert (copy[0] == -1).all() and np.array_equal(copy[1:], values[1:])
    with pytest.raises(OSError, match="only read"):
        tiermap.map(where, mode="r+")


def test_what_is_written_is_an_object_when_the_array_is_gone(server):
    values = known(3_000_000, np.int32).reshape(-1, 3)
    array = tiermap.map(server.url("new.npy"), "int32", values.shape, mode="w", budget="1MiB")
    array[:] = values
    assert server.saved("new.npy") is None
    del array
    gc.collect()
    assert np.array_equal(np.load(server.saved("new.npy")), values)
    array = tiermap.map(server.url("new.npy"), mode="r+", budget="1MiB")
    array[500_000] = -1
    array.sync()
    values[500_000] = -1
    assert np.array_equal(np.load(server.saved("new.npy")), values)
    with pytest.raises(FileExistsError):
        tiermap.map(server.url("new.npy"), "int32", 5, mode="w")
    del array
    gc.collect()
    array = tiermap.map(server.url("new.npy"), "int32", 5, mode="w", overwrite=True)
    array[:] = 7
    del array
    gc.collect()
    assert np.array_equal(np.load(server.saved("new.npy")), [7] * 5)


def parquet(file, array):
    table = pytest.importorskip("pyarrow").table({name: array[:, at] for at, name in enumerate("abc")})
    pytest.importorskip("pyarrow.parquet").write_table(table, file)


@pytest.mark.parametrize("url, save", [
    ("npy:{}", np.save), ("fits:{}", fits), ("csv:{}&type=float32", text), ("hdf5:{}", hdf5),
    ("parquet:?store={}", parquet)])
def test_formats_in_objects_behind_tiers(server, tmp_path, monkeypatch, url, save):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiers.yaml").write_text("tiers: [{name: dram, capacity: 1MiB}]\n")
    values = known(30_000, np.int32).reshape(-1, 3).astype(np.float32)
    server.load("object", values, save)
    of_object = server.url("object:/plain" if save is hdf5 else "object", "retries=3")
    behind = url.format(quote(of_object, safe="") if save is parquet else of_object)
    try:
        array = tiermap.map(f"tiered:tiers.yaml?store={quote(behind, safe='')}", np.float32, values.shape)
    except OSError as error:
        if error.errno == errno.ENOTSUP:
            pytest.skip(str(error))
        raise
    assert np.array_equal(array, values)
    assert np.array_equal(pickle.loads(pickle.dumps(array)), values)


def test_two_spellings_are_one_mapping_and_two_buckets_are_not(server):
    server.load("key", known(1000), raw)
    first = tiermap.map(server.url("key"), "i8", mode="r+")
    first[0] = 5
    assert tiermap.map(server.url("k%65y"), "i8", mode="r+")[0] == 5
    with pytest.raises(FileNotFoundError, match="NoSuchBucket"):
        tiermap.map(server.url("key").replace("//bucket/", "//other/"), "i8", mode="r+")


def test_refusals_say_what_the_server_says(server, monkeypatch):
    with pytest.raises(FileNotFoundError, match="NoSuchKey"):
        tiermap.map(server.url("none"))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermissionError, match="check the secret key"):
        tiermap.map(server.url("none"))
