"""tiermap.memmap beside numpy.memmap: the same arguments, the same results."""

import gc
import os
import pickle
import shutil
import tempfile

import numpy as np
import pytest

import tiermap
from conftest import known

KINDS = [np.memmap, tiermap.memmap]


@pytest.fixture
def twins(tmp_path):
    """Two equal files, one for each."""
    values = known(6000, np.int32)
    paths = [tmp_path / "numpy.bin", tmp_path / "tiermap.bin"]
    for path in paths:
        values.tofile(path)
    return paths


@pytest.mark.parametrize("arguments", [
    dict(), dict(dtype=np.int32), dict(dtype="int32", mode="r"), dict(dtype=np.int32, mode="c"),
    dict(dtype=np.int32, mode="r+", offset=400), dict(dtype=np.int32, mode="r", offset=4096, shape=100),
    dict(dtype=np.int32, mode="r", shape=(10, 20)), dict(dtype=np.int32, mode="r", shape=(10, 20), order="F"),
    dict(dtype=np.int16, mode="readwrite"), dict(dtype=np.int16, mode="readonly"),
    dict(dtype=np.int8, mode="copyonwrite"),
    dict(dtype=np.uint8, mode="r", offset=13, shape=(3, 7)), dict(dtype=None), dict(dtype=None, mode="r", shape=7),
    *(dict(dtype=np.int32, mode="r", shape=(10, 20), order=order) for order in ("A", "K", "f", "c", "a", "k", None)),
    dict(mode="r", shape=0), dict(mode="r+", shape=(0, 5)), dict(mode="c", offset=24000),
])
def test_reads_as_numpy_does(twins, arguments):
    theirs, ours = (kind(path, **arguments) for kind, path in zip(KINDS, twins))
    assert isinstance(ours, np.ndarray) and np.array_equal(theirs, ours)
    for name in ("shape", "dtype", "strides", "mode", "offset"):
        assert getattr(theirs, name) == getattr(ours, name), name
    assert theirs.flags.writeable == ours.flags.writeable
    assert os.fspath(ours.filename) == str(twins[1])


@pytest.mark.parametrize("arguments", [
    dict(mode="x"), dict(mode="w+"), dict(dtype=np.dtype("V7")), dict(dtype=np.int32, mode="r", shape=10**6),
    dict(dtype=np.int32, mode="r", offset=1, shape=None), dict(mode="r", order="X"), dict(mode="w", shape=10),
])
def test_refuses_what_numpy_refuses(twins, arguments):
    before = twins[0].read_bytes()
    for kind, path in zip(KINDS, twins):
        with pytest.raises(ValueError):
            kind(path, **arguments)
        assert path.read_bytes() == before


def test_writes_as_numpy_does(twins):
    for kind, path in zip(KINDS, twins):
        array = kind(path, dtype=np.int32, mode="r+", shape=(60, 100))
        array[3] = 7
        array[:, 5] += 1
        array[array < 10] = -1
        np.multiply(array, 2, out=array)
        array[[1, 2, 50, 40, 3]] = np.arange(100)
        array.flush()
        del array
    gc.collect()
    assert twins[0].read_bytes() == twins[1].read_bytes()


def test_w_plus_replaces_and_r_plus_extends(twins):
    for kind, path in zip(KINDS, twins):
        array = kind(path, dtype=np.float64, mode="w+", shape=(5, 5))
        array[:] = 1.5
        del array
        gc.collect()
        longer = kind(path, dtype=np.float64, mode="r+", shape=(7, 5))
        longer[6] = 2.5
        del longer
        gc.collect()
    assert twins[0].read_bytes() == twins[1].read_bytes()


@pytest.mark.parametrize("kind", [np.memmap, tiermap.memmap])
def test_w_plus_makes_what_a_link_leads_to(tmp_path, kind):
    (tmp_path / "link.bin").symlink_to("target.bin")
    array = kind(tmp_path / "link.bin", np.int64, "w+", shape=(10,))
    array[:] = 5
    array.flush()
    assert (tmp_path / "link.bin").is_symlink() and np.fromfile(tmp_path / "target.bin", np.int64).tolist() == [5] * 10


def test_what_a_link_leads_to_does_not_stay_where_it_cannot_be_mapped(tmp_path):
    (tmp_path / "link.bin").symlink_to("target.bin")
    with pytest.raises(ValueError, match="cannot serve pages"):
        tiermap.map(tmp_path / "link.bin", np.int64, 10, mode="w", page_size="64MiB", budget="64MiB")
    assert os.listdir(tmp_path) == ["link.bin"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_name_of_a_file_is_of_the_kind_that_was_given(twins, tmp_path, monkeypatch, kind):
    """A script may ask a pathlib.Path for its parts; it has no links any more."""
    monkeypatch.chdir(tmp_path)
    link = tmp_path / "link.bin"
    link.symlink_to(twins[0].name)
    for mode in ("r", "r+", "c"):
        array = kind(link, dtype=np.int32, mode=mode)
        assert array.filename == twins[0] and array[5:].filename.parent == tmp_path
        array = kind("link.bin", dtype=np.int32, mode=mode)
        assert array.filename == str(link) and array[5:].filename == str(link)


def test_an_open_file_may_be_given(twins):
    with open(twins[1], "r+b") as file:
        array = tiermap.memmap(file, dtype=np.int32)
        assert array.filename == str(twins[1]) and array[5] == known(6)[5]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("opened, mode", [("rb", "r+"), ("rb", "w+"), ("r", "r+"), ("ab", "r"), ("ab", "r+"),
                                          ("ab", "c"), ("ab", "w+")])
def test_an_open_file_is_mapped_for_what_it_is_open_for(twins, kind, opened, mode):
    before = twins[0].read_bytes()
    with open(twins[0], opened) as file:
        with pytest.raises(PermissionError) as caught:
            kind(file, dtype=np.int32, mode=mode, shape=10)
    assert "\n" not in str(caught.value) and twins[0].read_bytes() == before


def test_open_files_are_changed_as_numpy_changes_them(twins):
    for shape in (100, 10000):
        for kind, path in zip(KINDS, twins):
            with open(path, "r+b") as file:
                array = kind(file, dtype=np.int32, mode="w+", shape=shape)
            assert array.mode == "w+"
            array[5] = -1
            del array
            gc.collect()
        assert twins[0].read_bytes() == twins[1].read_bytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("arguments", [dict(mode="r"), dict(mode="c"), dict(mode="r", shape=0)])
def test_an_empty_file_cannot_be_read(tmp_path, kind, arguments):
    path = tmp_path / "empty.bin"
    path.touch()
    with pytest.raises(ValueError, match="empty"):
        kind(path, **arguments)


def test_an_empty_file_can_be_written(tmp_path):
    path = tmp_path / "empty.bin"
    path.touch()
    assert tiermap.memmap(path, mode="r+").shape == (0,)
    tiermap.memmap(path, mode="r+", shape=5)[:] = 3
    gc.collect()
    assert path.read_bytes() == bytes([3] * 5)


@pytest.mark.parametrize("shape", [-1, (-1, 3)])
@pytest.mark.parametrize("mode", ["r", "r+", "c", "w+"])
def test_a_length_of_minus_one_is_refused(twins, mode, shape):
    with pytest.raises(ValueError, match="leave the shape out"):
        tiermap.memmap(twins[0], dtype=np.int32, mode=mode, shape=shape)
    assert twins[0].read_bytes() == twins[1].read_bytes()


def test_results_and_views_are_of_numpys_kinds(twins):
    theirs, ours = (kind(path, dtype=np.int32, mode="r", shape=(60, 100)) for kind, path in zip(KINDS, twins))
    operations = [
        lambda a: a + 1, lambda a: a.sum(), lambda a: a.sum(axis=0), lambda a: a[3, 4], lambda a: np.sqrt(a),
        lambda a: a.max(axis=1, keepdims=True), lambda a: a[[1, 2, 3, 4, 5]], lambda a: a == a, lambda a: a.mean(),
        lambda a: np.add.reduce(a, axis=None), lambda a: a.astype(float), lambda a: a[a > 5], lambda a: np.dot(a, a.T),
        lambda a: np.concatenate([a, a]), lambda a: np.add(a[0], a[1]), lambda a: np.median(a),
        lambda a: divmod(a, 3)[0], lambda a: -a, lambda a: a.sum(keepdims=True), lambda a: np.where(a > 3, a, 0),
        lambda a: a.argmax(), lambda a: a.tolist()[0][:3],
    ]
    for operation in operations:
        expected, found = operation(theirs), operation(ours)
        assert np.array_equal(expected, found)
        assert isinstance(found, np.ndarray) or type(found) is type(expected)
        assert getattr(found, "_mapping", None) is None, "a result is not mapped"
    for view in (lambda a: a[3], lambda a: a.T, lambda a: a[::2, 5:], lambda a: a.reshape(-1),
                 lambda a: a.view(np.uint8)):
        assert isinstance(view(ours), tiermap.memmap) and view(ours).filename == ours.filename
        assert np.array_equal(view(theirs), view(ours))


def test_results_of_a_class_of_the_users_are_of_that_class(twins):
    def kinds(memmap):
        class Measured(memmap):
            def __array_finalize__(self, template):
                super().__array_finalize__(template)
                self.unit = getattr(template, "unit", "none")

        array = Measured(twins[issubclass(memmap, np.memmap)], dtype=np.int32, mode="r", shape=(60, 100))
        array.unit = "metres"
        ones = np.ones(100)
        rows = array[[1, 2, 3, 4, 5]]
        results = (array, array[2:4], array + 1, rows, rows + rows, array.take([0, 1, 2, 3, 4], axis=0), array.copy(),
                   array.take([7]), array.sum(axis=0), array.sum(), array[3, 4], np.sqrt(array), -array[1], array.T * 2,
                   ones - array, array @ ones, array.dot(ones), np.dot(ones, array.T))
        return [(type(result).__name__, getattr(result, "unit", None), np.asarray(result).tolist())
                for result in results]

    assert kinds(tiermap.memmap) == kinds(np.memmap)


class WithUnit(tiermap.memmap):
    """Keeps an attribute in pickles, as numpy's users do it."""

    unit = "none"

    def __reduce__(self):
        function, arguments, state = super().__reduce__()
        return function, arguments, (state, self.unit)

    def __setstate__(self, state):
        super().__setstate__(state[0])
        self.unit = state[1]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_results_of_a_class_of_the_users_can_be_pickled(twins, protocol):
    array = WithUnit(twins[False], dtype=np.int32, mode="c", shape=(60, 100))
    array[3, 4] = -1
    for result in (array + 1, array[2:].T.copy(), array[[5, 1, 3]], array, array[3:]):
        result.unit = "metres"
        again = pickle.loads(pickle.dumps(result, protocol))
        assert type(again) is WithUnit and again.unit == "metres" and np.array_equal(again, result)


def test_one_import_line(tmp_path, script):
    """A script on numpy.memmap, and the same with one line changed, leave the same file."""
    text = """
        import numpy as np
        from {module} import memmap
        import sys
        a = memmap(sys.argv[1], dtype="float32", mode="w+", shape=(1000, 300))
        a[:] = np.arange(300)
        a[10:20] *= 2
        a.flush()
        b = memmap(sys.argv[1], dtype="float32", mode="r+", shape=(1000, 300))
        b[5] = a[15] + b.mean(axis=0)
        c = memmap(sys.argv[1], dtype="float32", mode="c", shape=(1000, 300))
        c[:] = 0
        print(b.sum(), c.sum(), type(b[0, 0]).__name__)
        """
    outputs = []
    for module in ("numpy", "tiermap"):
        ended = script(text.format(module=module), tmp_path / f"{module}.bin")
        assert ended.code == 0, ended
        outputs.append(ended.output)
    assert outputs[0] == outputs[1]
    assert (tmp_path / "numpy.bin").read_bytes() == (tmp_path / "tiermap.bin").read_bytes()
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_takes_open_files_without_a_name(tmp_path, kind):
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(100)))
        file.flush()
        array = kind(file, mode="r+")
        array[3] = 77
        array.flush()
        assert os.pread(file.fileno(), 5, 0) == bytes([0, 1, 2, 77, 4])
        assert array.filename is None and array[5:].filename is None
    path = tmp_path / "gone.bin"
    with open(path, "wb+") as file:
        file.write(bytes(range(100)))
        file.flush()
        path.unlink()
        array = kind(file, mode="r")
        assert array[99] == 99 and array.filename == str(path)
