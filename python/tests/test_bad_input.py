"""Bad input: one line that names the value and the remedy, and nothing left behind."""

import gc
import os
import pickle

import numpy as np
import pytest

import tiermap
from conftest import known


def test_writing_to_a_read_only_array_is_a_value_error(numbers):
    array = tiermap.map(numbers[0], np.int64)
    for write in (lambda: array.__setitem__(0, 1), lambda: array.fill(0), lambda: np.add(array, 1, out=array),
                  lambda: array.sort(), lambda: array.__setitem__([1, 2, 3, 4, 5], 0)):
        with pytest.raises(ValueError, match="read-only"):
            write()
    with pytest.raises(ValueError):
        array.flags.writeable = True
    assert np.array_equal(array, numbers[1])


def test_a_reader_of_what_is_written_stays_one(numbers):
    path, values = numbers
    writer = tiermap.map(path, np.int64, mode="r+")
    reader = tiermap.map(path, np.int64)
    assert reader._mapping is writer._mapping
    sent = pickle.loads(pickle.dumps(reader))
    for view in (reader, reader[5:], np.asarray(reader), reader.view(np.ndarray)[::2], sent):
        with pytest.raises(ValueError):
            view.flags.writeable = True
        with pytest.raises(ValueError):
            view[0] = 1
        assert memoryview(view).readonly
        assert tiermap.stats(view)["budget_bytes"] > 0
    writer[7] = -7
    assert reader[7] == -7
    del writer, view, sent
    gc.collect()
    assert np.array_equal(reader[8:], values[8:])


@pytest.mark.parametrize("value", [10**30, 1 << 64, 1 << 63, -10**30])
@pytest.mark.parametrize("name", ["budget", "read_ahead", "page_size", "offset"])
def test_numbers_of_any_size_are_answered_in_one_line(numbers, name, value):
    with pytest.raises(ValueError, match=f"{name.replace('_', ' ')} {value} .*: (give|choose)") as caught:
        tiermap.map(numbers[0], **{name: value})
    assert "\n" not in str(caught.value)


def test_arguments_are_named_as_the_caller_wrote_them(numbers, tmp_path):
    for budget in ("64", "4KiB", 8192):
        with pytest.raises(ValueError, match=f"^budget {budget!r} is out of range: choose 20KiB to 128TiB"):
            tiermap.map(numbers[0], budget=budget)
    with pytest.raises(ValueError, match="^shape is missing: mode w makes"):
        tiermap.map(tmp_path / "new.npy", mode="w")
    for make in (tiermap.map, tiermap.memmap):
        with pytest.raises(TypeError, match="^dtype 'flaot32' is none that numpy knows .*: give one such as 'float32'"):
            make(numbers[0], "flaot32")


@pytest.mark.parametrize("value", [[], {}, np.array([1, 2]), np.array([]), np.zeros((9, 9)), 5, None, b"r"])
@pytest.mark.parametrize("name", ["mode", "order", "format", "advice", "start"])
def test_words_that_are_none_are_answered_in_one_line(numbers, name, value):
    with pytest.raises(ValueError, match=f"^{name} .* is unknown: choose ") as caught:
        tiermap.map(numbers[0], **{name: value})
    assert "\n" not in str(caught.value)
    if name == "advice":
        with pytest.raises(ValueError, match="^advice .* is unknown: choose "):
            tiermap.advise(tiermap.map(numbers[0]), value)


@pytest.mark.parametrize("value", [np.array([1, 2]), np.array([]), np.zeros((9, 9)), [], 1.5, float("nan")])
@pytest.mark.parametrize("name", ["budget", "read_ahead", "page_size", "offset"])
def test_sizes_that_are_none_are_answered_in_one_line(numbers, name, value):
    with pytest.raises(TypeError, match=f"^{name.replace('_', ' ')} .* is not a size: give bytes") as caught:
        tiermap.map(numbers[0], **{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["budget", "read_ahead", "page_size", "offset"])
def test_texts_that_are_no_utf_8_are_answered_in_one_line(numbers, name):
    with pytest.raises(ValueError, match=f"^{name.replace('_', ' ')} .*: ") as caught:
        tiermap.map(numbers[0], **{name: "\udc80KiB"})
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="^name '.udc80' has letters that are none in UTF-8: leave them out$"):
        tiermap.Cache("1MiB", name="\udc80")


def test_blocks_refuses_a_size_at_the_call(numbers):
    array = tiermap.map(numbers[0], np.int64)
    for blocks in (array.blocks, lambda size: tiermap.blocks(array, size)):
        with pytest.raises(ValueError, match="size of a block '1KiBx'"):
            blocks("1KiBx")
    assert sum(int(block.sum()) for block in array.blocks("4KiB", cache=False)) == int(numbers[1].sum())


def test_blocks_takes_a_memoryview_of_an_array_and_refuses_what_is_none(numbers):
    array = tiermap.map(numbers[0], np.int64)
    assert sum(int(block.sum()) for block in tiermap.blocks(memoryview(array), "4KiB")) == int(numbers[1].sum())
    with pytest.raises(TypeError, match="^flatiter is no array: give what tiermap.map"):
        tiermap.blocks(array.flat)


def test_numbers_of_a_cache_of_any_size_are_answered_in_one_line():
    cache = tiermap.Cache("1MiB")
    with pytest.raises(ValueError, match=f"budget {10**30} .*give at most"):
        cache.budget = 10**30
    for value in (10**30, 1 << 32, -1):
        with pytest.raises(ValueError, match=f"fillers {value} is out of range: give 0 to"):
            tiermap.Cache("1MiB", fillers=value)
    for value, said in ((1.5, "1.5"), (np.array([1, 2]), "array"), (np.zeros((9, 9)), "array")):
        with pytest.raises(TypeError, match=f"fillers {said}.* is no whole number: give") as caught:
            tiermap.Cache("1MiB", fillers=value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["policy", "fault_mode", "placement", "name", "trace"])
def test_texts_of_a_cache_that_are_none_are_answered_in_one_line(name):
    with pytest.raises(TypeError, match=f"^{name} 5 is no text: give a str$"):
        tiermap.Cache("1MiB", **{name: 5})


@pytest.mark.parametrize("options, said", [
    (dict(budgt="1MiB"), "a cache has no option 'budgt': choose among budget, policy, .*adapt"),
    (dict(adapt=5), "adapt 5 is neither True nor False: give one of them"),
])
def test_options_that_a_cache_has_not_are_answered_in_one_line(options, said):
    with pytest.raises(TypeError, match=f"^{said}$"):
        tiermap.Cache(**options)


@pytest.mark.parametrize("name", ["", b""])
@pytest.mark.parametrize("open_it", [tiermap.map, tiermap.memmap, tiermap.open_heap])
def test_a_name_without_a_character_is_no_directory(name, open_it):
    with pytest.raises(FileNotFoundError, match="'' names no (data|heap): give "):
        open_it(name)


def test_what_is_no_pin(numbers):
    for held in (5, tiermap.map(numbers[0])):
        with pytest.raises(TypeError, match="is no pin: give what tiermap.pin\\(\\) returned"):
            tiermap.unpin(held)


def test_w_onto_what_exists_is_refused_unless_asked(numbers):
    path, values = numbers
    for mode in ("w", "w+"):
        with pytest.raises(FileExistsError, match="overwrite=True"):
            tiermap.map(path, np.int64, 10, mode=mode)
    assert np.array_equal(np.fromfile(path, np.int64), values)
    array = tiermap.map(path, np.int64, 10, mode="w", overwrite=True)
    assert os.path.getsize(path) == 80 and np.array_equal(array, np.zeros(10))


@pytest.mark.parametrize("arguments, said", [
    (dict(dtype=np.dtype("V7")), "no multiple of the 7"),
    (dict(dtype=np.int64, shape=(10**6, 10**3)), "map less"),
    (dict(dtype=np.int64, shape=10, offset=1 << 30), "map less"),
    (dict(dtype=np.int64, offset=1 << 30), "behind the end"),
    (dict(dtype=np.int64, offset=-1), "negative"),
    (dict(dtype=np.int64, shape=-1), "negative"),
    (dict(dtype=np.int64, shape=1 << 60), "no store has more"),
    (dict(dtype=np.int64, shape=(1 << 40, 1 << 40)), "no store has more"),
    (dict(dtype=object), "Python objects"),
    (dict(dtype="S0"), "no bytes"),
    (dict(dtype=np.int64, mode="x"), "choose r, r"),
    (dict(dtype=np.int64, order="A"), "choose C or F"),
    (dict(dtype=np.int64, format="hdf5"), "choose auto"),
    (dict(dtype=np.int64, budget="12"), "out of range"),
    (dict(dtype=np.int64, budget="many"), "many"),
    (dict(dtype=np.int64, page_size=5000), "power of two"),
    (dict(dtype=np.int64, page_size="1GiB"), "power of two"),
    (dict(dtype=np.int64, page_size="64MiB", budget="64MiB"), "cannot serve pages"),
    (dict(dtype=np.int64, advice="often"), "choose from normal"),
    (dict(format="npy"), "magic"),
])
def test_values_that_cannot_be(numbers, arguments, said):
    with pytest.raises(ValueError, match=said):
        tiermap.map(numbers[0], **arguments)


@pytest.mark.parametrize("arguments, kind", [
    (dict(where=7), TypeError),
    (dict(where="x.bin", cache="1GiB"), TypeError),
    (dict(where="missing.bin"), FileNotFoundError),
    (dict(where="missing.npy", mode="r+"), FileNotFoundError),
    (dict(where="/proc"), IsADirectoryError), (dict(where="/proc/self/.."), IsADirectoryError),
    (dict(where="/proc/self/status/"), NotADirectoryError), (dict(where="/proc/self/status/."), NotADirectoryError),
    (dict(where="sparse:///missing-directory/x"), FileNotFoundError),
    (dict(where="file:///x.bin?depth=3"), ValueError),
])
def test_names_that_lead_nowhere(arguments, kind):
    with pytest.raises((kind, OSError) if kind is ValueError else kind):
        tiermap.map(**arguments)


@pytest.mark.parametrize("map_it", [lambda name: tiermap.map(name), lambda name: tiermap.memmap(name, mode="r"),
                                    lambda name: tiermap.map(name, np.int64, (4,), mode="w")])
@pytest.mark.parametrize("name", ["foo://x", "http://server/x.npy", b"gs://bucket/x"])
def test_schemes_that_there_are_not(tmp_path, monkeypatch, name, map_it):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="is unknown: choose among concat, csv, file, .*tiered"):
        map_it(name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("map_it", [tiermap.map, tiermap.memmap])
def test_what_ends_as_a_directory_is_not_made_as_a_file(tmp_path, map_it):
    (tmp_path / "there.bin").write_bytes(b"kept")
    for name in ("there.bin/", "new.bin/"):
        with pytest.raises(NotADirectoryError, match=f"{name} ends as a directory's path does"):
            map_it(f"{tmp_path}/{name}", np.uint8, shape=(8,), mode="w+")
    assert [path.name for path in tmp_path.iterdir()] == ["there.bin"]
    assert (tmp_path / "there.bin").read_bytes() == b"kept"


def test_a_path_back_from_a_link_leads_where_the_kernel_goes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "far" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/inner")
    (tmp_path / "x.bin").write_bytes(b"near")
    (tmp_path / "far" / "x.bin").write_bytes(b"far!")
    for where in ("link/../x.bin", tmp_path / "link" / ".." / "x.bin"):
        assert bytes(tiermap.map(where)) == b"far!"
    array = tiermap.memmap("link/../x.bin", mode="w+", shape=(4,))
    array[:] = ord("w")
    del array
    gc.collect()
    assert (tmp_path / "x.bin").read_bytes() == b"near"
    assert (tmp_path / "far" / "x.bin").read_bytes() == b"wwww"
    for where, error in (("missing/../x.bin", FileNotFoundError), ("x.bin/../x.bin", NotADirectoryError)):
        with pytest.raises(error):
            tiermap.map(where)
        with pytest.raises(error):
            tiermap.memmap(where, mode="w+", shape=(4,))
    assert (tmp_path / "x.bin").read_bytes() == b"near"


def test_a_path_may_look_like_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "foo:").mkdir()
    tiermap.map("./foo://x", np.uint8, (4,), mode="w")[:] = 7
    assert (tmp_path / "foo:" / "x").read_bytes() == bytes([7] * 4)
    (tmp_path / "foo:y").write_bytes(b"abc")
    assert bytes(tiermap.map("foo:y")) == b"abc"
    assert bytes(tiermap.map(tmp_path / "foo:y")) == b"abc"


def test_an_array_of_no_dimension_has_no_blocks(tmp_path):
    np.save(tmp_path / "one.npy", np.float64(3.5))
    with pytest.raises(ValueError, match="no dimension"):
        tiermap.blocks(tiermap.map(tmp_path / "one.npy"))


def test_shape_is_needed_to_make_data(tmp_path):
    with pytest.raises(ValueError, match="shape"):
        tiermap.map(tmp_path / "new.bin", np.int64, mode="w")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [dict(budget="12"), dict(page_size=5000), dict(advice="often"),
                                       dict(dtype=object)])
def test_a_mapping_that_cannot_be_leaves_no_file(tmp_path, arguments):
    with pytest.raises(ValueError):
        tiermap.map(tmp_path / "new.npy", **{"dtype": np.int64, "shape": 1 << 20, "mode": "w", **arguments})
    assert list(tmp_path.iterdir()) == []


def test_dtype_and_shape_against_a_header(rows):
    for arguments in (dict(dtype=np.float64), dict(shape=(4096, 301)), dict(offset=128)):
        with pytest.raises(ValueError, match="leave"):
            tiermap.map(rows[0], **arguments)
    assert tiermap.map(rows[0], np.float32, (4096, 300)).shape == (4096, 300)


@pytest.mark.parametrize("damage", [
    lambda data: data[:9], lambda data: data[:40], lambda data: b"PK" + data[2:],
    lambda data: data[:6] + b"\x09" + data[7:], lambda data: data[:7] + b"\x05" + data[8:],
    lambda data: data[:10] + b"{" * 118 + data[128:], lambda data: data.replace(b"shape", b"sharp", 1),
    lambda data: data.replace(b"(5000,)", b"(-500,)"), lambda data: data.replace(b"(5000,)", b"(9**9,)"),
    lambda data: data[:8] + b"\xff\xff" + data[10:], lambda data: b"", lambda data: data[:200],
    lambda data: data[:10] + b"[" * 118 + data[128:], lambda data: data[:10] + b"-" * 118 + data[128:],
    lambda data: data.replace(b"'<i8'", b"10**9"), lambda data: data.replace(b"'<i8'", b"()   "),
    lambda data: data.replace(b"(5000,)", b"'5000' "), lambda data: data.replace(b"(5000,)", b"(5e400)"),
    lambda data: data.replace(b"(5000,)", b"(True,)"), lambda data: data.replace(b"False", b"50000"),
    lambda data: data[:10] + b"7" * 117 + b"\n" + data[128:],
])
def test_damaged_headers(tmp_path, damage):
    np.save(tmp_path / "good.npy", known(5000))
    (tmp_path / "bad.npy").write_bytes(damage((tmp_path / "good.npy").read_bytes()))
    with pytest.raises(ValueError) as caught:
        tiermap.map(tmp_path / "bad.npy")
    assert "\n" not in str(caught.value)


def test_header_with_objects(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}, []], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="numpy.load"):
        tiermap.map(tmp_path / "objects.npy")


def test_header_with_elements_of_no_bytes(tmp_path):
    np.save(tmp_path / "nothing.npy", np.zeros(5, "V0"))
    with pytest.raises(ValueError, match="no bytes"):
        tiermap.map(tmp_path / "nothing.npy")


@pytest.mark.parametrize("arguments, said", [
    (dict(page_size=3), "power of two"), (dict(page_size="128MiB"), "power of two"), (dict(page_size="x"), "x"),
    (dict(advice="no"), "choose from normal"), (dict(advice="cold"), "choose from normal"),
    (dict(start="x"), "choose fork or spawn"), (dict(read_ahead=-1), "negative"),
])
@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_values_that_cannot_be_where_a_mapping_is_shared(numbers, arguments, said, mode):
    array = tiermap.map(numbers[0], np.int64, mode="r+")
    with pytest.raises(ValueError, match=said):
        tiermap.map(numbers[0], np.int64, mode=mode, **arguments)
    assert array[5] == numbers[1][5]


@pytest.mark.parametrize("arguments", [dict(page_size=5000), dict(advice="often"), dict(start="x"),
                                       dict(shape=1 << 61), dict(shape=(1 << 60) - 4096)])
def test_values_that_cannot_be_replace_nothing(numbers, arguments):
    # A file of the last shape could be, and no file system here has such.
    with pytest.raises((ValueError, OSError)):
        tiermap.map(numbers[0], **{"dtype": np.int64, "shape": 10, "mode": "w", "overwrite": True, **arguments})
    assert np.array_equal(np.fromfile(numbers[0], np.int64), numbers[1])


@pytest.mark.parametrize("arguments", [
    dict(page_size="64MiB", budget="64MiB"), dict(page_size="64MiB", budget="64MiB", shape=1 << 20),
    dict(page_size="64MiB", budget="64MiB", shape=1 << 20, format="npy"), dict(budget="12"), dict(read_ahead=-1),
    dict(page_size="64MiB", budget="64MiB", read_ahead="1GiB"), dict(shape=(1,) * 70), dict(shape=(0, 1 << 61, 4)),
])
@pytest.mark.parametrize("kind", [tiermap.map, tiermap.memmap])
def test_what_cannot_be_mapped_replaces_nothing(numbers, arguments, kind):
    path, values = numbers
    if kind is tiermap.map:
        arguments = {"overwrite": True, **arguments}
    else:  # It has no headers.
        arguments = {name: value for name, value in arguments.items() if name != "format"}
    with pytest.raises(ValueError):
        kind(path, **{"dtype": np.int64, "shape": 10, "mode": "w+", **arguments})
    assert np.array_equal(np.fromfile(path, np.int64), values)


def test_what_cannot_be_mapped_replaces_nothing_under_a_reader(numbers):
    path, values = numbers
    reader = tiermap.Cache("1MiB", fault_mode="self-serving").map(path, np.int64)
    with pytest.raises(ValueError, match="cannot serve pages"):
        tiermap.map(path, np.int64, 10, mode="w", overwrite=True, page_size="64MiB", budget="64MiB")
    assert np.array_equal(reader, values)


def test_where_a_mapping_is_shared_options_of_its_own_replace_it(numbers):
    """They are checked and not applied, so that there is nothing that could not be."""
    array = tiermap.map(numbers[0], np.int64, mode="r+", budget="1MiB")
    again = tiermap.map(numbers[0], np.int64, len(array), mode="w", overwrite=True, page_size="64MiB", budget="64MiB")
    assert not again.any() and not array.any()


@pytest.mark.parametrize("shape", [(1.5,), "abc", 1.5, (10, "3"), (None,), {"rows": 3}, np.ones((2, 2)), [[1, 2], [3]]])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_shapes_that_are_none(tmp_path, numbers, shape, mode):
    where = numbers[0] if mode == "r" else tmp_path / "new.bin"
    with pytest.raises(TypeError, match="is no shape: give a whole number, or a tuple") as caught:
        tiermap.map(where, np.int64, shape, mode=mode)
    assert "\n" not in str(caught.value) and repr(shape)[:4] in str(caught.value)
    assert not (tmp_path / "new.bin").exists()


@pytest.mark.parametrize("shape", [7, np.int32(7), (7,), [7], np.array([7]), np.array(7)])
def test_shapes_of_any_kind_of_number(numbers, shape):
    assert tiermap.map(numbers[0], np.int64, shape).shape == (7,)


def test_what_is_not_mapped(numbers):
    for call in (tiermap.drop, tiermap.sync, tiermap.pin, tiermap.stats, tiermap.prefetch):
        with pytest.raises(TypeError, match="not mapped"):
            call(numbers[1])
    array = tiermap.map(numbers[0], np.int64)
    for call in (tiermap.drop, tiermap.sync, tiermap.pin, tiermap.prefetch):
        with pytest.raises(TypeError, match="^flatiter is no array: give what tiermap.map"):
            call(array.flat)
        with pytest.raises(ValueError, match="^the array begins 16 bytes before what is mapped: choose a part inside$"):
            call(np.lib.stride_tricks.as_strided(array, (3,), (-8,)))


def test_cache_and_budget_together(numbers):
    with pytest.raises(ValueError, match="leave one out"):
        tiermap.Cache("1MiB").map(numbers[0], budget="2MiB")


def test_a_closed_cache_takes_nothing_new(numbers):
    with tiermap.Cache("1MiB") as cache:
        array = cache.map(numbers[0], np.int64)
    assert array[17] == numbers[1][17]
    with pytest.raises(ValueError, match="closed"):
        cache.map(numbers[0], np.int32)


def test_a_full_disk_is_told_by_sync():
    """The write error stays with the page, and comes at every sync until the cause is gone."""
    class Full:
        size = 1 << 20

        def read_into(self, offset, buffer):
            return None

        def write_from(self, offset, buffer):
            raise OSError(28, "the disk is full")

    array = tiermap.map(Full(), mode="r+", budget="4MiB")
    array[5] = 1
    with pytest.raises(OSError) as caught:
        array.sync()
    assert caught.value.errno == 28 and "disk is full" in str(caught.value.__cause__)
    assert array[5] == 1
    array._mapping.discard(0, 1 << 20)
