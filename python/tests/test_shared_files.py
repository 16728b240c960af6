"""One file mapped more than once in one process: no write is lost, or it is refused."""

import errno
import gc
import pickle
import signal
import threading
import time
import weakref

import numpy as np
import pytest

import tiermap
from conftest import known
from tiermap import _finding, _map

KINDS = [np.memmap, tiermap.memmap]


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
def test_a_reader_from_before_sees_what_is_written(numbers, kind):
    reader = kind(numbers[0], np.int64, mode="r")
    assert reader[0] == numbers[1][0]
    writer = kind(numbers[0], np.int64, mode="r+")
    writer[0] = -9
    assert reader[0] == -9
    assert kind(numbers[0], np.int64, mode="r")[0] == -9, "whichever mapping was found first"
    del writer
    gc.collect()
    assert reader[0] == -9

def test_a_reader_that_serves_itself_sees_what_was_written_after_flush_and_drop(numbers):
    """As docs/python.md says under its limits; one that came later sees it at once."""
    reader = tiermap.Cache("64MiB", fault_mode="self-serving").map(numbers[0], np.int64)
    assert reader[0] == numbers[1][0]
    writer = tiermap.map(numbers[0], np.int64, mode="r+")
    writer[0] = -9
    assert tiermap.map(numbers[0], np.int64)[0] == -9, "whichever mapping was found first"
    writer.flush()
    reader.drop()
    assert reader[0] == -9


@pytest.mark.parametrize("kind", KINDS)
def test_a_private_copy_begins_with_what_arrays_have_written(numbers, kind):
    path, values = numbers
    writer = kind(path, np.int64, mode="r+")
    writer[1000] = 7
    copied = kind(path, np.int64, mode="c", offset=4096)
    assert copied[1000 - 512] == 7 and np.array_equal(copied[1000:], values[1512:])
    copied[1000 - 512] = 8
    assert writer[1000] == 7 and copied[1000 - 512] == 8


@pytest.mark.parametrize("sent", [False, True], ids=["by its name", "as a pickle"])
@pytest.mark.parametrize("writer", ["another's", "an array's"])
@pytest.mark.parametrize("kind", ["{}", "concat:{}", "{}*"])
def test_what_is_mapped_after_a_change_has_it_whoever_has_an_older_array(numbers, kind, writer, sent):
    where = kind.format(f"file:{numbers[0]}" if kind == "{}*" else numbers[0])
    reader = tiermap.map(where, np.int64)
    pickled = pickle.dumps(reader)
    assert reader[0] == numbers[1][0] and tiermap.map(where, np.int64)._mapping is reader._mapping
    if writer == "another's":
        numbers[1][::-1].copy().tofile(numbers[0])
    else:
        written = tiermap.map(numbers[0], np.int64, mode="r+")
        written[:] = numbers[1][::-1]
        del written
    again = pickle.loads(pickled) if sent else tiermap.map(where, np.int64)
    assert np.array_equal(again, numbers[1][::-1])
    assert tiermap.map(where, np.int64)._mapping is again._mapping


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


SPELLINGS = ["file://{}", "file:{}", "FILE://localhost{}", "file:///{}?direct=off", "file:{}?max_reads=3"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("escape", ["%", "%25", "plain"])
def test_all_spellings_of_a_file_are_one_mapping(zeros, spelling, escape):
    path = zeros(8192, "100%, a+b.bin" if escape == "%25" else "zeros.bin")
    encoded = str(path).replace("%", "%25").replace(",", "%2C")
    if escape == "%":
        encoded = encoded.replace("zeros", "%7Aero%73")
    first = tiermap.map(path, mode="r+")
    second = tiermap.map(spelling.format(encoded), mode="r+")
    second[5] = 1
    first[6] = 2
    assert first[5] == 1 and second[6] == 2 and first._mapping is second._mapping


def test_spellings_of_many_files_are_one_mapping(zeros, monkeypatch):
    folder = zeros(4096, "a.bin").parent
    zeros(4096, "b.bin")
    monkeypatch.chdir(folder)
    first = tiermap.map(f"concat:{folder}/a.bin,{folder}/b.bin@0+4KiB", mode="r+")
    for url in (f"concat://localhost{folder}/%61.bin,{folder}/b.bin@0+4KiB", "concat:a.bin,%62.bin@0+4KiB?direct=off"):
        assert tiermap.map(url, mode="r+")._mapping is first._mapping
    stars = tiermap.map("file:*.bin", mode="r+")
    assert tiermap.map(f"file://{folder}/*.bin", mode="r+")._mapping is stars._mapping


@pytest.mark.parametrize("url", ["file:x%2", "file://elsewhere/x", "file:x%00y", "file:", "concat:a,,b",
                                 "file:%zz?direct=on"])
def test_urls_that_are_wrong_are_refused_where_they_are_opened(zeros, monkeypatch, url):
    monkeypatch.chdir(zeros(8192).parent)
    with pytest.raises((OSError, ValueError)) as caught:
        tiermap.map(url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("outer, inner", [("r+", "r+"), ("r", "r+"), ("r+", "r"), ("w+", "r+"), ("w+", "w+")])
def test_mapping_a_file_within_its_own_mapping_is_refused(zeros, monkeypatch, outer, inner):
    """As a signal handler or a __del__ may, between the look for a mapping and the making of one."""
    path = zeros(8192)
    said, make = [], _map.Mapping

    def interrupted(*arguments, **options):
        monkeypatch.setattr(_map, "Mapping", make)
        with pytest.raises(OSError) as caught:
            tiermap.map(path, shape=8192, mode=inner, overwrite=True)
        said.append(caught.value)
        other = tiermap.map(zeros(4096, "other.bin"), mode="r+")
        other[0] = 1
        return make(*arguments, **options)

    monkeypatch.setattr(_map, "Mapping", interrupted)
    array = tiermap.map(path, shape=8192, mode=outer, overwrite=True)
    assert said[0].errno == errno.EBUSY and "map it after that" in str(said[0]) and str(path) in str(said[0])
    assert tiermap.map(path, mode="r+").any() == array.any() and not _finding._under_way


def test_readers_of_a_file_may_be_mapped_within_one_another(zeros, monkeypatch):
    path = zeros(8192)
    make = _map.Mapping

    def interrupted(*arguments, **options):
        monkeypatch.setattr(_map, "Mapping", make)
        assert tiermap.map(path)[5] == 0
        return make(*arguments, **options)

    monkeypatch.setattr(_map, "Mapping", interrupted)
    assert tiermap.map(path)[7] == 0


def test_one_mapping_that_lives_serves_whoever_interrupts_map(zeros, monkeypatch):
    path = zeros(8192)
    live = tiermap.map(path, mode="r+")
    find = _map._mapping.find

    def interrupted(*arguments):
        monkeypatch.setattr(_map._mapping, "find", find)
        tiermap.map(path, mode="r+")[3] = 4
        return find(*arguments)

    monkeypatch.setattr(_map._mapping, "find", interrupted)
    assert tiermap.map(path, mode="r+")[3] == 4 and live[3] == 4


def mapped_again_at_its_end(path, said):
    """An array of the file, at whose end the file is mapped again, and a reference that dies with it.

    What is refused then is added to `said`.
    """
    array = tiermap.map(path, mode="r+")
    array[1] = 2

    def again(_):
        try:
            tiermap.map(path, mode="r+")
        except OSError as error:
            said.append(error)

    return array, weakref.ref(array._mapping, again)


def test_mapping_a_file_within_the_end_of_an_array_of_it_is_refused_soon(zeros):
    """The array's thread would wait for itself."""
    path = zeros(8192)
    said, began = [], time.monotonic()
    array, watch = mapped_again_at_its_end(path, said)
    del array
    gc.collect()
    assert watch() is None and time.monotonic() - began < 30
    assert said[0].errno == errno.EBUSY and "map it after that" in str(said[0]) and str(path) in str(said[0])
    assert tiermap.map(path, mode="r+")[1] == 2


def test_mapping_a_file_within_the_collection_of_garbage_that_has_it_is_refused_soon(zeros):
    path = zeros(8192)
    said, began = [], time.monotonic()
    array, watch = mapped_again_at_its_end(path, said)
    cycle = [array._mapping]
    array._mapping.cycle = cycle
    del array, cycle
    gc.collect()
    assert watch() is None and time.monotonic() - began < 30
    assert [error.errno for error in said] == [errno.EBUSY]
    assert tiermap.map(path, mode="r+")[1] == 2


def test_a_signal_handler_maps_while_arrays_of_the_file_come_and_go(zeros):
    """Whatever it interrupts: it gets the array or EBUSY, at once, and nothing that was written is lost."""
    path, counted, refused, slowest, inside = zeros(8192), [0], [0], [0.0], []

    def handler(*_):
        if inside:  # A handler is interrupted, too.
            return
        inside.append(True)
        began = time.monotonic()
        try:
            tiermap.map(path, mode="r+")[8:16].view(np.int64)[0] += 1
            counted[0] += 1
        except OSError as error:
            assert error.errno == errno.EBUSY
            refused[0] += 1
        slowest[0] = max(slowest[0], time.monotonic() - began)
        inside.clear()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    rounds, until = 0, time.monotonic() + 3
    try:
        while time.monotonic() < until:
            tiermap.map(path, mode="r+")[:8].view(np.int64)[0] += 1
            rounds += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    gc.collect()
    assert np.fromfile(path, np.int64)[:2].tolist() == [rounds, counted[0]]
    assert counted[0] > 0 and slowest[0] < 10, (counted, refused, slowest)


def test_threads_map_files_while_one_is_interrupted_at_the_end_of_its_array(zeros):
    """Another thread holds the lock and waits for the end that the interrupting map() is within."""
    path, other = zeros(8192), zeros(4096, "other.bin")
    array = tiermap.map(path, mode="r+")
    got, waiting = [], threading.Event()

    def wait_for_the_end():
        waiting.set()
        got.append(tiermap.map(path, mode="r+")[1])

    def again(_):
        thread.start()
        waiting.wait()
        time.sleep(0.2)
        try:
            tiermap.map(other, mode="r+")
        except OSError as error:
            got.append(error.errno)

    thread = threading.Thread(target=wait_for_the_end)
    array[1] = 2
    watch = weakref.ref(array._mapping, again)
    began = time.monotonic()
    del array
    gc.collect()
    thread.join()
    assert watch() is None and got == [errno.EBUSY, 2] and time.monotonic() - began < 30


def test_what_was_changed_within_a_tick_of_the_file_systems_clock_is_read_anew(coarse_path):
    for index in range(5):
        path = coarse_path / f"{index}.bin"
        np.zeros(100_000, np.int64).tofile(path)
        before = tiermap.map(path, np.int64)
        assert before[5] == 0
        with open(path, "r+b") as file:
            file.seek(40)
            file.write((7).to_bytes(8, "little"))
        assert tiermap.map(path, np.int64)[5] == 7
