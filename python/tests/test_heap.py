"""Heaps that a C++ program has written (heap_writer.cpp), read from Python: names, arrays, texts, damage."""

import concurrent.futures
import errno
import gc
import multiprocessing
import os
import pathlib
import pickle
import shutil
import struct
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest

import tiermap
from tiermap import _core
from tiermap._heap_types import UNKNOWN, Elements, Several, Text, Vector, layout_of
from conftest import HEAP_WRITER
from conftest import write_heap as write

pytestmark = pytest.mark.skipif(HEAP_WRITER is None, reason="TIERMAP_HEAP_WRITER, which make test-python sets, "
                                                            "names no program that writes heaps")
SPAWN = multiprocessing.get_context("spawn")
RECORD = np.dtype([("minute", "u8"), ("degrees", "f8"), ("station", "i2")], align=True)
NUMBERS = {"char": np.int8, "int8": np.int8, "uint8": np.uint8, "int16": np.int16, "uint16": np.uint16,
           "int32": np.int32, "uint32": np.uint32, "int64": np.int64, "uint64": np.uint64, "long long": np.longlong,
           "unsigned long long": np.ulonglong, "char16": np.uint16, "float32": np.float32, "float64": np.float64,
           "long double": np.longdouble}
MANY = 1 << 20


@pytest.fixture(scope="module")
def all_path(tmp_path_factory):
    path = tmp_path_factory.mktemp("heaps") / "all.heap"
    assert write("all", path) == 0
    return path


@pytest.fixture
def heap(all_path):
    with tiermap.open_heap(all_path, budget="16MiB") as opened:
        yield opened


@pytest.fixture
def numbers_path(tmp_path):
    path = tmp_path / "numbers.heap"
    assert write("numbers", path) == 0
    return path


def overwrite(path, offset, data):
    """Other bytes in a heap's data, as a failing disk would leave them."""
    opened = _core.Heap(str(path))
    with open(pathlib.Path(path) / "data", "r+b") as file:
        file.seek(opened.data_offset + offset)
        file.write(data)


def found(opened, name):
    return next(one for one in opened.objects() if one.name == name)


def test_the_list_of_what_is_there(heap):
    names = list(heap)
    assert names == sorted(names, key=os.fsencode) and len(heap) == len(names)
    assert "text" in heap and "nothing" not in heap and 5 not in heap
    objects = heap.objects()
    assert [one.name for one in objects if not one.unique] == names
    record = found(heap, "record[4]")
    assert (record.type, record.number, record.itemsize, record.bytes) == ("Record", 4, 24, 96)
    assert found(heap, "text").description == "where it was measured"
    assert heap.warnings() == []
    assert [one.type for one in objects if one.unique] == ["double"]
    assert heap[objects[-1]] == 2.25


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_every_type(heap, name):
    dtype = np.dtype(NUMBERS[name])
    limits = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    one, several = heap[name], heap[name + "[3]"]
    assert one.dtype == dtype and one.shape == () and one == limits.max
    assert several.dtype == dtype and several.tolist() == np.array([limits.min, 1, limits.min], dtype).tolist()
    for elements in (heap["vector of " + name], heap["standard vector of " + name]):
        assert elements.dtype == dtype and elements.tolist() == [0, 1, 2, 0, 1]


def test_booleans_and_complex_numbers(heap):
    assert heap["bool"].dtype == np.bool_ and heap["bool"]
    assert heap["vector of bool"].tolist() == [True, False, True]
    assert heap["complex"].dtype == np.complex128 and heap["complex"] == 1.5 - 2.5j
    assert heap["vector of complex"].tolist() == [1 + 2j, 3 + 4j]


def test_arrays_in_objects_and_vectors(heap):
    assert heap["array"].tolist() == [1, 2, 3]
    assert heap["arrays[5]"].shape == (5, 2, 4) and heap["arrays[5]"][4, 1, 3] == 77 and heap["arrays[5]"].sum() == 77
    index = np.arange(100)
    assert np.array_equal(heap["vector of array"], np.stack([index, -index], axis=1).astype(np.float32))
    pairs = heap["vector of pair"]
    assert np.array_equal(pairs["first"], index) and np.array_equal(pairs["second"], index / 2)
    assert heap["empty"].shape == heap["cleared"].shape == heap["standard empty"].shape == (0,)
    assert [one.tolist() for one in heap["vectors[3]"]] == [[], [1, 2, 3], [4]]


def test_vectors_that_may_be_outside_the_heap(heap):
    assert heap["fallback"].tolist() == [1, 2]
    lost = replace(found(heap, "lost"), type=found(heap, "fallback").type)
    with pytest.raises(OSError, match="its allocator is of no heap"):
        heap._open().array(lost, None)


def test_texts(heap):
    assert heap["text"] == "Berlin-Dahlem" and heap["empty text"] == ""
    assert heap["longest short text"] == "s" * 22 and heap["shortest long text"] == "l" * 23
    assert heap["long text"] == "x" * 10_000 + "Zürich"
    assert heap["no UTF-8"] == os.fsdecode(b"caf\xe9") and heap[os.fsdecode(b"caf\xe9")] == 5
    assert heap["texts[2]"] == ["each", "each"]
    with pytest.raises(TypeError, match="is text"):
        heap.array("text")


def test_records_with_a_dtype(heap):
    index = np.arange(100)
    for name in ("vector of record", "standard vector of record"):
        records = heap.array(name, RECORD)
        assert records.shape == (100,) and np.array_equal(records["minute"], index)
        assert np.array_equal(records["degrees"], index / 4) and np.array_equal(records["station"], -index)
    assert heap.array("record", RECORD).tolist() == (1, 2.5, 3)
    assert heap.array("record[4]", RECORD)[3].tolist() == (9, 9.5, -9)
    assert heap.array("array of record", RECORD)["station"].tolist() == [5, 6]
    assert heap.array("vector of line", (np.float32, 16)).shape == (3, 16)
    assert heap.array("colour", np.uint8) == 3
    assert heap.array("vector of float64", np.int64)[1] == np.float64(1).view(np.int64)
    assert heap.array("vector of array", np.int32).shape == (100, 2)
    assert heap.array("vector of array", np.int64).shape == (100,)


@pytest.mark.parametrize("name", ["record", "record[4]", "vector of record", "standard vector of record", "array",
                                  "array of record", "vector of float64", "standard vector of float64", "colour"])
@pytest.mark.parametrize("size", [5, 9, 40])
def test_a_dtype_of_another_size_is_refused(heap, name, size):
    with pytest.raises(ValueError, match=f"V{size} has {size} bytes"):
        heap.array(name, f"V{size}")


def test_objects_in_a_dtype_are_refused(heap):
    with pytest.raises(ValueError, match="Python objects"):
        heap.array("record", object)


@pytest.mark.parametrize("name, type_name", [("map", "boost::container::map<"), ("record", "Record"),
                                             ("vector of record", "vector<Record"), ("nested", "vector<boost::"),
                                             ("colour", "Colour"), ("array of record", "std::array<Record")])
def test_what_numpy_has_no_type_for_is_named(heap, name, type_name):
    with pytest.raises(TypeError, match="no type for") as refused:
        heap[name]
    assert type_name in str(refused.value) and repr(name) in str(refused.value)
    raw = heap.bytes(name)
    assert raw.dtype == np.uint8 and raw.shape == (found(heap, name).bytes,)


def test_bytes_are_the_object_s(heap):
    assert heap.bytes("record").tobytes()[:18] == struct.pack("<Qdh", 1, 2.5, 3)


def test_no_copy_and_no_writing(heap):
    array = heap["vector of float64"]
    assert isinstance(array, np.ndarray) and np.shares_memory(array, heap["vector of float64"])
    for view in (array, np.asarray(array), array.view(np.uint8), heap["int32"], heap.bytes("map")):
        assert not view.flags.writeable and not view.flags.owndata
        with pytest.raises(ValueError, match="WRITEABLE"):
            view.flags.writeable = True
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_names_that_are_not_there(heap, numbers_path):
    with pytest.raises(KeyError, match="has no object 'nothing'"):
        heap["nothing"]
    with pytest.raises(TypeError, match="5 is no name"):
        heap[5]
    with tiermap.open_heap(numbers_path) as other, pytest.raises(KeyError, match="has no object 'text'"):
        other[found(heap, "text")]


def test_a_closed_heap(all_path):
    with tiermap.open_heap(all_path) as opened:
        array, name = opened["vector of int64"], repr(opened)
    assert opened.closed and array.tolist() == [0, 1, 2, 0, 1] and name != repr(opened)
    for use in (lambda: opened["text"], lambda: len(opened), lambda: list(opened), lambda: "text" in opened,
                opened.objects, opened.warnings, opened.__enter__, lambda: opened.bytes("text")):
        with pytest.raises(ValueError, match="is closed: open it again"):
            use()
    opened.close()


def test_arrays_outlive_the_heap_and_keep_writers_away(numbers_path):
    opened = tiermap.open_heap(numbers_path, budget="2MiB")
    view = np.asarray(opened["numbers"])[10:]
    opened.close()
    del opened
    gc.collect()
    assert int(view.sum()) == sum(range(30, 3 * MANY, 3))
    assert write("append", numbers_path) == 3
    del view
    gc.collect()
    assert write("append", numbers_path) == 0
    with tiermap.open_heap(numbers_path) as again:
        assert again["numbers"].shape == (MANY + 1,) and again["numbers"][-1] == -1


def test_a_budget_and_what_can_be_done_with_arrays(numbers_path):
    cache = tiermap.Cache("2MiB")
    array = tiermap.open_heap(numbers_path, cache=cache, page_size="16KiB")["numbers"]
    assert tiermap.stats(array)["resident_bytes"] <= 2 << 20
    assert sum(int(block.sum()) for block in tiermap.blocks(array, "64KiB")) == 3 * MANY * (MANY - 1) // 2
    assert cache.stats()["resident_bytes"] <= 2 << 20
    with tiermap.pin(array[:1000]):
        tiermap.drop(array[5000:])
    tiermap.prefetch(array[:5000], wait=True)
    rows = np.array([5, 1000, 500_000, MANY - 1])
    assert np.array_equal(array[rows], rows * 3)
    assert array._mapping.page_size == 16384
    array.sync()


def test_a_heap_in_files_of_a_sparse_store(tmp_path):
    assert write("sparse", tmp_path / "sparse.heap") == 0
    array = tiermap.open_heap(tmp_path / "sparse.heap", budget="2MiB")["numbers"]
    assert int(array.sum()) == 3 * MANY * (MANY - 1) // 2


def test_dask_works_on_it_in_blocks(numbers_path):
    dask = pytest.importorskip("dask.array")
    array = tiermap.open_heap(numbers_path, budget="2MiB")["numbers"]
    assert int(dask.from_array(array, chunks=100_000).sum().compute(scheduler="threads")) == total_of(array)


def total(path):
    with tiermap.open_heap(path, budget="2MiB") as opened:
        time.sleep(0.5)
        return int(opened["numbers"].sum())


def total_of(array):
    return int(array.sum())


def test_many_processes_read_at_once(numbers_path):
    with tiermap.open_heap(numbers_path, budget="2MiB") as opened:
        with concurrent.futures.ProcessPoolExecutor(3, mp_context=SPAWN) as pool:
            totals = list(pool.map(total, [numbers_path] * 3, timeout=100))
        assert totals == [int(opened["numbers"].sum())] * 3


@pytest.mark.parametrize("context", [multiprocessing.get_context("fork"), SPAWN], ids=["fork", "spawn"])
def test_workers_read_the_arrays_they_are_sent(numbers_path, context):
    array = tiermap.open_heap(numbers_path, budget="2MiB")["numbers"]
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        assert list(pool.map(total_of, [array, array[::7]], timeout=100)) == [total_of(array), total_of(array[::7])]
    assert len(pickle.dumps(array)) < 2500
    again = pickle.loads(pickle.dumps(array))
    assert np.shares_memory(again, array)


def test_a_forked_child_goes_on_with_its_parents_arrays(numbers_path):
    opened = tiermap.open_heap(numbers_path, budget="2MiB")
    array = opened["numbers"]
    child = os.fork()
    if child == 0:
        os._exit(0 if array[-1] == 3 * (MANY - 1) and opened["numbers"][MANY // 2] == 3 * (MANY // 2) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_pickle_of_a_heap_that_was_changed_since_is_refused(numbers_path):
    sent = pickle.dumps(tiermap.open_heap(numbers_path)["numbers"])
    gc.collect()
    assert write("append", numbers_path) == 0
    with pytest.raises(OSError, match="has been changed since") as refused:
        pickle.loads(sent)
    assert refused.value.errno == errno.ESTALE
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(tiermap.open_heap(numbers_path))


def test_what_is_no_heap(tmp_path):
    with pytest.raises(FileNotFoundError, match="is missing"):
        tiermap.open_heap(tmp_path / "none.heap")
    with pytest.raises(FileNotFoundError, match="is an empty directory"):
        tiermap.open_heap(tmp_path)
    (tmp_path / "other").write_bytes(b"something else")
    with pytest.raises(OSError, match="is not a heap") as refused:
        tiermap.open_heap(tmp_path)
    assert refused.value.errno == errno.EINVAL
    with pytest.raises(TypeError, match="int names no heap"):
        tiermap.open_heap(3)


def test_bad_options(all_path):
    for options in ({"budget": "lots"}, {"page_size": 5000}, {"advice": "dont_need"}, {"read_ahead": -1},
                    {"budget": "1MiB", "cache": tiermap.Cache("1MiB")}):
        with pytest.raises(ValueError):
            tiermap.open_heap(all_path, **options)
    with pytest.raises(TypeError):
        tiermap.open_heap(all_path, cache="1MiB")


def test_a_heap_that_a_writer_has(numbers_path):
    with subprocess.Popen([HEAP_WRITER, "hold", str(numbers_path)], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(OSError, match="in use by a writer") as refused:
            tiermap.open_heap(numbers_path)
        assert refused.value.errno == errno.EBUSY
        writer.communicate(b"\n", timeout=100)
    assert tiermap.open_heap(numbers_path)["numbers"].shape == (MANY,)


def test_after_a_crash_the_last_checkpoint_is_seen(tmp_path):
    path = tmp_path / "crash.heap"
    assert write("crash", path) == 0
    with tiermap.open_heap(path, budget="4MiB") as opened:
        assert opened["value"] == 1 and list(opened) == ["numbers", "value"]
        assert int(opened["numbers"].sum()) == 3 * MANY * (MANY - 1) // 2
        assert len(opened.warnings()) == 1 and "was not closed" in opened.warnings()[0]
    with pytest.raises(OSError, match="which fault mode kernel cannot map") as refused:
        tiermap.open_heap(path, cache=tiermap.Cache("4MiB", fault_mode="kernel"))
    assert refused.value.errno == errno.ENOTSUP
    direct = tmp_path / "direct.heap"
    assert write("direct", direct) == 0
    with pytest.raises(OSError, match="was not closed") as refused:
        tiermap.open_heap(direct)
    assert refused.value.errno == errno.EUCLEAN


def test_in_fault_mode_kernel(numbers_path):
    cache = tiermap.Cache("16MiB", fault_mode="kernel")
    assert int(tiermap.open_heap(numbers_path, cache=cache)["numbers"].sum()) == 3 * MANY * (MANY - 1) // 2


def test_a_newer_layout_and_damaged_metadata(all_path, tmp_path):
    for name, offset, data, message in (("version", 12, struct.pack("<I", 999), "layout version 999"),
                                        ("superblock", 32, b"\xff", "the superblock"),
                                        ("state", 4096 + 30, b"\xff", "the state"),
                                        ("magic", 0, b"X", "is not one")):
        path = tmp_path / f"{name}.heap"
        shutil.copytree(all_path, path)
        with open(path / "data", "r+b") as file:
            file.seek(offset)
            file.write(data)
        with pytest.raises(OSError, match=message):
            tiermap.open_heap(path)
    path = tmp_path / "truncated.heap"
    shutil.copytree(all_path, path)
    os.truncate(path / "data", 1 << 20)
    with pytest.raises(OSError, match="is truncated"):
        tiermap.open_heap(path)


HEADERS = {
    "allocator": ("vector of int64", 0, struct.pack("<Q", 12345), "allocator"),
    "pointer outside": ("vector of int64", 8, struct.pack("<Q", 1 << 60), "where no block begins"),
    "pointer into a block": ("vector of int64", 8, None, "where no block begins"),
    "null": ("vector of int64", 8, struct.pack("<Q", 1), "where no block begins"),
    "size over capacity": ("vector of int64", 16, struct.pack("<Q", 8), "8 elements are said to be in room for 7"),
    "capacity over the block": ("vector of int64", 24, struct.pack("<Q", 1 << 62), "do not fit"),
    "capacity under the block": ("vector of int64", 16, struct.pack("<QQ", 1, 1), "do not fit"),
    "end before begin": ("standard vector of int64", 16, struct.pack("<q", -1 << 20), "its elements are said to be"),
    "half an element": ("standard vector of int64", 24, None, "do not fit"),
    "long text": ("long text", 8, struct.pack("<Q", 1 << 40), "a text is said to have"),
    "text's pointer": ("long text", 24, struct.pack("<Q", 1 << 50), "where no block begins"),
    "short text": ("text", 8, b"\xff", "a short text is said to have 127 bytes"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_a_damaged_header_is_refused(all_path, tmp_path, case):
    name, at, data, message = HEADERS[case]
    path = tmp_path / "damaged.heap"
    shutil.copytree(all_path, path)
    offset = found(tiermap.open_heap(path), name).offset
    if data is None:  # A pointer that leads a little further.
        raw = tiermap.open_heap(path).bytes(name)[at:at + 8].tobytes()
        data = struct.pack("<Q", struct.unpack("<Q", raw)[0] + 4)
    gc.collect()
    overwrite(path, offset + at, data)
    with pytest.raises(OSError, match="is damaged, or object") as refused:
        tiermap.open_heap(path)[name]
    assert refused.value.errno == errno.EINVAL and message in str(refused.value)
    assert tiermap.open_heap(path)["array"].tolist() == [1, 2, 3]


def test_random_headers_never_crash(all_path, tmp_path, program):
    """Whatever words are there: an array inside the heap, a text, or an error."""
    path = tmp_path / "damaged.heap"
    shutil.copytree(all_path, path)
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    ended = program("""
        import random, struct, sys
        import numpy as np
        import tiermap
        from tiermap import _core
        path, choose = sys.argv[1], random.Random(int(sys.argv[2]))
        with tiermap.open_heap(path, budget="16MiB") as heap:
            headers = [one for one in heap.objects() if one.itemsize == 32]
            raw = {one: heap.bytes(one).tobytes() for one in headers}
        start = _core.Heap(path).data_offset
        good = refused = 0
        for _ in range(40):
            with open(path + "/data", "r+b") as file:
                for one in headers:
                    words = list(struct.unpack(f"<{len(raw[one]) // 8}Q", raw[one]))
                    place = choose.randrange(len(words))
                    words[place] = choose.choice([choose.getrandbits(64), choose.getrandbits(choose.randrange(1, 64)),
                                                  words[place] ^ 1 << choose.randrange(64), words[place] + 8, 0, 1])
                    file.seek(start + one.offset)
                    file.write(struct.pack(f"<{len(words)}Q", *(word % (1 << 64) for word in words)))
            with tiermap.open_heap(path, cache=tiermap.Cache("16MiB")) as heap:
                for one in heap.objects():
                    for look in (lambda: heap[one], lambda: heap.array(one, "u1"), lambda: heap.array(one, "V24")):
                        try:
                            value = look()
                            for array in value if isinstance(value, list) else [value]:
                                np.asarray(array).tobytes() if isinstance(array, np.ndarray) else len(array)
                            good += 1
                        except (OSError, ValueError, TypeError):
                            refused += 1
        print(good > 1000, refused > 1000)
        """, path, seed)
    assert ended.output == "True True\n" and ended.code == 0, ended


GCC = "boost::container::vector<{0}, boost::container::scoped_allocator_adaptor<tiermap::HeapAllocator<{0} > >, void>"
OTHERS = "boost::container::vector<{0},boost::container::scoped_allocator_adaptor<tiermap::HeapAllocator<{0}>>,void>"


@pytest.mark.parametrize("spelling", [GCC, OTHERS])
def test_names_of_types_in_every_spelling(spelling):
    for element, dtype, shape in (("double", "f8", ()), ("unsigned long", "u8", ()),
                                  ("std::array<int, 3ul>", "i4", (3,)),
                                  ("std::__1::array<std::array<float,2ul>, (unsigned long)4>", "f4", (4, 2)),
                                  ("std::array<short [2][5], 3ul>", "i2", (3, 2, 5)),
                                  ("std::array<short[2][5],3>", "i2", (3, 2, 5)),
                                  ("std::__1::complex<float>", "c8", ())):
        layout = layout_of(spelling.format(element))
        assert isinstance(layout, Vector) and layout.element == Elements(np.dtype(dtype), shape), element
    for text in ("boost::container::basic_string<char,std::char_traits<char>,tiermap::HeapAllocator<char>>",
                 "boost::container::basic_string<char, std::__1::char_traits<char>, tiermap::HeapAllocator<char> >"):
        assert layout_of(text) == Text()
    assert layout_of("std::array<a::B<(c)1, d>, 2ul>") == Several((2,))
    assert layout_of("std::pair<std::pair<bool, int>, std::array<char, 3ul> >").bytes == 12


@pytest.mark.parametrize("name", [
    "", "Record", "double*", "std::vector<bool, tiermap::HeapAllocator<bool> >", "std::vector<double>",
    "std::vector<double, std::allocator<double> >", "std::__1::vector<double, tiermap::HeapAllocator<double> >",
    "std::__debug::vector<double, tiermap::HeapAllocator<double> >", "boost::container::vector<double, void, void>",
    "boost::container::vector<double, tiermap::HeapAllocator<double>, boost::container::vector_options<1> >",
    "boost::container::basic_string<char16_t, std::char_traits<char16_t>, tiermap::HeapAllocator<char16_t> >",
    "std::array<double, 0ul>", "std::array<double, N>", "mine::vector<double, tiermap::HeapAllocator<double> >",
    ">", "<>", "a>>>", "<<<>", "std::array<" * 500 + "int" + ", 2ul>" * 500, "(anonymous namespace)::Record",
    "void (*)(int, long)",
    "f()::{lambda(int)#1}", "int" + "[2]" * 400, "std::pair<int, Record>", "std::array<char, " + "9" * 5000 + ">"])
def test_names_of_types_that_say_nothing(name):
    layout = layout_of(name)
    assert layout == UNKNOWN or isinstance(layout, Several), layout
