"""Cache objects, statistics, progress, pins, and the choice of a page size."""

import os
import sys
import threading
import time
import typing
import weakref

import numpy as np
import pytest

import tiermap
from tiermap import _cache
from conftest import MIB, known


def test_budget_holds_and_statistics_tell(numbers):
    path, values = numbers
    with tiermap.Cache("1MiB", name="test") as cache:
        array = cache.map(path, np.int64, page_size="64KiB")
        assert int(array.sum()) == int(values.sum())
        counted = cache.stats()
        assert counted["budget_bytes"] == cache.budget == MIB
        assert 0 < counted["resident_bytes"] <= MIB and counted["read_bytes"] >= values.nbytes
        assert counted["fills"] == sum(part["fills"] for part in [array.stats()])
        assert counted["stages"]["total"]["count"] > 0 and 0 <= counted.hit_ratio <= 1
        assert isinstance(counted, dict) and "resident_bytes" in str(counted)
        assert "<table>" in counted._repr_html_() and "<table>" in cache._repr_html_()
    assert "closed" in repr(cache)


def test_two_arrays_share_one_budget(tmp_path):
    cache = tiermap.Cache("1MiB")
    arrays = []
    for index in range(3):
        known(200000, np.int64, index).tofile(tmp_path / str(index))
        arrays.append(cache.map(tmp_path / str(index), np.int64))
    for _ in range(2):
        for index, array in enumerate(arrays):
            assert np.array_equal(array, known(200000, np.int64, index))
            assert cache.stats()["resident_bytes"] <= MIB
    assert len(cache.mappings) == 3


def test_options_reach_the_engine(numbers):
    cache = tiermap.Cache("1MiB", policy="lru", fault_mode="kernel")
    assert cache.fault_mode == "kernel" and "asked for" in cache.fault_mode_reason
    assert np.array_equal(cache.map(numbers[0], np.int64), numbers[1])
    for bad in (dict(policy="mru"), dict(fault_mode="magic"), dict(high_watermark=200), dict(fillers=0)):
        with pytest.raises(ValueError):
            tiermap.Cache("1MiB", **bad)
    with pytest.raises(TypeError):
        tiermap.Cache("1MiB", colour="red")


def test_the_default_is_not_self_serving():
    assert tiermap.Cache("1MiB").fault_mode in ("notify", "kernel")


def test_a_share_of_memory_is_of_what_other_caches_leave():
    first, second = tiermap.Cache("80%", fault_mode="notify"), tiermap.Cache("80%", fault_mode="notify")
    assert second.budget < first.budget / 2
    second.close()
    del second
    before = first.budget
    for _ in range(4):  # Its own budget is what it has, and not another's.
        first.budget = "80%"
    assert first.budget > before / 2


@pytest.mark.parametrize("setting, most", [("", 4096), ("policy: lru", 4096), ("buffer_size: 5GiB", 5120)])
def test_the_default_cache_has_at_most_4_gib_unless_more_is_said(program, tmp_path, setting, most):
    (tmp_path / "tiermap.yaml").write_text(setting)
    ended = program("import tiermap; print(tiermap.default_cache().budget >> 20)",
                    TIERMAP_CONFIG=str(tmp_path / "tiermap.yaml"))
    assert int(ended.output) == most if most > 4096 else int(ended.output) <= most, ended


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_share_the_memory_where_nobody_says_a_budget(script, method):
    ended = script("""
        import multiprocessing, os, sys
        import tiermap

        own, default, said = tiermap.Cache(), tiermap.default_cache(), tiermap.Cache("8MiB")

        def budgets(caches):
            return tiermap.default_cache().budget, own.budget, said.budget, [cache.budget for cache in caches]

        if __name__ == "__main__":
            most = own.budget // (2 * len(os.sched_getaffinity(0))) * 3 // 2  # Others use memory meanwhile.
            with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
                for shared, theirs, told, sent in pool.map(budgets, [[default, own, said]] * 4, chunksize=1):
                    print(max(shared, theirs, *sent[:2]) <= most, told == sent[2] == 8 << 20)
            print(default.budget <= min(4 << 30, own.budget), own.budget > most)
    """, method)
    assert ended.output == "True True\n" * 5, ended


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_keep_what_they_write_where_their_share_is_small_for_the_pages(script, tmp_path, method):
    """Here the address space that there is leaves a worker's share fewer pages than an engine has to have."""
    (tmp_path / "rows.bin").write_bytes(b"\1" * (40 << 20))
    ended = script("""
        import multiprocessing, resource, sys
        resource.setrlimit(resource.RLIMIT_AS, (2_000_000_000, 2_000_000_000))
        import numpy as np
        import tiermap

        kept = []

        def work(number, rows):
            out = tiermap.memmap(f"{sys.argv[2]}/out{number}.bin", "f8", "w+", shape=1000)
            out[:] = number
            kept.append(out)  # What its pages have is written when the worker ends.
            return int(rows[number << 20]), tiermap.default_cache().budget

        if __name__ == "__main__":
            rows = tiermap.map(f"{sys.argv[2]}/rows.bin", page_size="16MiB")
            budget = tiermap.default_cache().budget
            pool = multiprocessing.get_context(sys.argv[1]).Pool(2)
            for read, share in pool.starmap(work, [(number, rows) for number in range(1, 5)], chunksize=1):
                print(read, share < budget)
            pool.close()
            pool.join()
            for number in range(1, 5):
                print((np.fromfile(f"{sys.argv[2]}/out{number}.bin") == number).all())
    """, method, tmp_path)
    assert ended.output == "1 True\n" * 4 + "True\n" * 4 and ended.code == 0, ended


@pytest.mark.parametrize(["variable", "value", "ranks"], [
    ("OMPI_COMM_WORLD_LOCAL_SIZE", "4", 4), ("MPI_LOCALNRANKS", "8", 8), ("SLURM_STEP_TASKS_PER_NODE", "2(x3),5", 5),
    ("MPI_LOCALNRANKS", "1", 1), ("MPI_LOCALNRANKS", "0", 1), ("MPI_LOCALNRANKS", "many", 1)])
def test_ranks_share_the_memory_where_nobody_says_a_budget(program, variable, value, ranks):
    ended = program("""if True:
        import tiermap
        cache = tiermap.Cache()
        print(cache._whole_budget // cache.budget, tiermap.default_cache().budget <= cache.budget * 3 // 2)
    """, **{variable: value})
    assert ended.output == f"{ranks} True\n", ended


@pytest.mark.parametrize("name", ["a" * 200 + ".py", "\u5206" * 40 + ".py", "two\nlines\t.py", "Stra\udcdfe.py", "-"])
def test_scripts_of_any_name_have_a_default_cache(monkeypatch, name):
    monkeypatch.setattr(sys, "argv", ["/somewhere/" + name])
    assert tiermap.Cache("1MiB", name=_cache.program_name()).budget == MIB
    monkeypatch.setattr(sys, "argv", [""])
    assert _cache.program_name() == "python"


def test_progress_is_told(numbers, monkeypatch):
    from tiermap import _mapping

    monkeypatch.setattr(_mapping, "PIECE", MIB)
    array = tiermap.map(numbers[0], np.int64, mode="r+", budget="8MiB")
    seen = []
    array.prefetch(progress=lambda done, total: seen.append((done, total)))
    assert seen == [(index * MIB, 4 * MIB) for index in range(1, 5)]
    array += 1
    seen.clear()
    array.sync(lambda done, total: seen.append((done, total)))
    assert seen == [(index * MIB, 4 * MIB) for index in range(1, 5)]
    seen.clear()
    list(tiermap.blocks(array, "1MiB", progress=lambda done, total: seen.append((done, total))))
    assert seen == [(index * MIB // 8, MIB // 2) for index in range(1, 5)]
    seen.clear()
    array._mapping.cache.sync(progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (4 * MIB, 4 * MIB)


def test_prefetch_pin_and_advice(numbers):
    path, values = numbers
    cache = tiermap.Cache("2MiB")
    array = cache.map(path, np.int64, page_size="64KiB")
    assert array[:MIB // 16].prefetch(wait=True).done
    assert array.stats()["resident_bytes"] >= MIB // 2
    with tiermap.pin(array[:1000]):
        assert np.array_equal(array, values)
        before = array.stats()["fills"]
        assert array[5] == values[5]
        assert array.stats()["fills"] == before, "a pinned page stays"
    with pytest.raises(OSError):
        tiermap.pin(array)
    for advice in ("normal", "random", "sequential", "hot", "cold", "will_need", "dont_need"):
        tiermap.advise(array[100:5000], advice)
    with pytest.raises(ValueError):
        tiermap.advise(array, "soon")
    for _ in range(200):  # What was announced last may still be coming.
        cache.drop()
        if array.stats()["resident_bytes"] == 0:
            break
        time.sleep(0.02)
    assert array.stats()["resident_bytes"] == 0


def test_operations_take_plain_views(numbers):
    array = tiermap.map(numbers[0], np.int64, budget="8MiB", page_size="4KiB")
    view = np.asarray(array)[::-1][100:5000:3].reshape(-1, 1)
    assert view.sum() == numbers[1][::-1][100:5000:3].sum()
    before = array.stats()["resident_bytes"]
    tiermap.drop(view)
    assert array.stats()["resident_bytes"] < before
    tiermap.drop(memoryview(view).obj)
    tiermap.drop(memoryview(view))
    with tiermap.pin(memoryview(view)[100:200]):
        tiermap.prefetch(memoryview(view), wait=True)


@pytest.mark.parametrize("arguments, expected", [
    (dict(data_bytes=1 << 30, row_bytes=4096, budget_bytes=256 * MIB), 16384),
    (dict(data_bytes=1 << 30, row_bytes=50000, budget_bytes=256 * MIB), 65536),
    (dict(data_bytes=1 << 30, row_bytes=1 << 30, budget_bytes=256 * MIB), MIB),
    (dict(data_bytes=1 << 30, row_bytes=8, budget_bytes=256 * MIB), 65536),
    (dict(data_bytes=1 << 40, row_bytes=8, budget_bytes=4 << 30), 2 * MIB),
    (dict(data_bytes=1 << 30, row_bytes=8, budget_bytes=4 << 30), 2 * MIB),
    (dict(data_bytes=1 << 20, row_bytes=8, budget_bytes=4 << 30), 256 << 10),
    (dict(data_bytes=1 << 30, row_bytes=8, budget_bytes=64 * MIB, sequential=True), 2 * MIB),
    (dict(data_bytes=1 << 30, row_bytes=1 << 20, budget_bytes=MIB), 16384),
    (dict(data_bytes=1 << 30, row_bytes=1 << 20, budget_bytes=65536), 4096),
    (dict(data_bytes=8128, row_bytes=8, budget_bytes=4 << 30), 8192),
    (dict(data_bytes=8128, row_bytes=8, budget_bytes=4 << 30, sequential=True), 8192),
    (dict(data_bytes=100, row_bytes=8, budget_bytes=4 << 30), 4096),
    (dict(data_bytes=0, row_bytes=8, budget_bytes=4 << 30), 4096),
    (dict(data_bytes=(1 << 20) + 1, row_bytes=8, budget_bytes=4 << 30, sequential=True), 2 * MIB),
])
def test_the_rule_for_page_sizes(arguments, expected):
    assert tiermap.choose_page_size(**arguments) == expected


def test_the_rule_for_page_sizes_takes_counts_that_numpy_made():
    for kind in (np.int64, np.uint64, np.array):
        assert tiermap.choose_page_size(kind(1 << 30), kind(50000), kind(256 * MIB)) == 65536
    assert tiermap.choose_page_size(np.int32(1 << 30), np.uint8(8), np.uint32((1 << 32) - 1)) == 2 * MIB
    for value in (1.5, float("nan"), None, np.array([1, 2])):
        with pytest.raises(TypeError, match="^row_bytes .* is not a size: give bytes"):
            tiermap.choose_page_size(1 << 30, value, MIB)
    with pytest.raises(ValueError, match="^budget_bytes -1 is negative"):
        tiermap.choose_page_size(1 << 30, 8, -1)


def test_auto_is_what_the_rule_says(rows):
    array = tiermap.map(rows[0], budget="1MiB")
    assert array._mapping.page_size == tiermap.choose_page_size(array.nbytes, 1200, MIB)
    assert os.path.getsize(rows[0]) > array.nbytes


def test_many_small_arrays_take_little_memory(tmp_path):
    cache = tiermap.Cache("64MiB")
    for number in range(200):
        np.save(tmp_path / f"{number}.npy", np.full(1000, number))
    arrays = [cache.map(tmp_path / f"{number}.npy") for number in range(200)]
    assert all(array[999] == number for number, array in enumerate(arrays))
    assert cache.stats()["resident_bytes"] <= 200 * 8192


def test_as_many_arrays_as_numpy_has_with_few_descriptors(tmp_path, program):
    done = program("""
        import os, resource, sys
        import tiermap
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        arrays = [tiermap.map(f"{sys.argv[1]}/{number}", "u1", 4096, mode="w") for number in range(100)]
        opened = [os.open(sys.argv[1], os.O_RDONLY) for _ in range(20)]
        print(len(arrays), len(opened))
    """, tmp_path)
    assert done.code == 0 and done.output == "100 20\n", done


def test_all_is_dropped_and_told_while_others_map(tmp_path):
    cache = tiermap.Cache("4MiB")
    paths = [tmp_path / f"{number}.bin" for number in range(8)]
    for path in paths:
        path.write_bytes(bytes(4096))
    ended = threading.Event()

    def map_all():
        while not ended.is_set():
            for path in paths:
                cache.map(path)

    threads = [threading.Thread(target=map_all) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(300):
            cache.drop()
            assert len(cache.mappings) <= len(paths)
            cache.sync()
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def interrupted(call, handler):
    """What `call` gives, where a signal handler comes just when it has the first member of a set."""
    done = []

    def trace(frame, event, _):
        if frame.f_code is weakref.WeakSet.__iter__.__code__ and event == "return" and not done:
            done.append(handler())
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return call(), done[0]
    finally:
        sys.settrace(before)


def test_a_signal_handler_maps_while_all_mappings_are_gone_through(tmp_path):
    for name in ("one.bin", "other.bin"):
        (tmp_path / name).write_bytes(bytes(4096))
    cache = tiermap.Cache("1MiB")
    one = cache.map(tmp_path / "one.bin")
    mappings, other = interrupted(lambda: cache.mappings, lambda: cache.map(tmp_path / "other.bin"))
    assert {id(mapping) for mapping in mappings} == {id(one._mapping), id(other._mapping)}
    caches, another = interrupted(_cache.live_caches, lambda: tiermap.Cache("1MiB"))
    assert {id(cache), id(another)} <= {id(made) for made in caches}


def test_the_package_is_typed():
    folder = os.path.dirname(tiermap.__file__)
    assert os.path.exists(os.path.join(folder, "py.typed")) and os.path.exists(os.path.join(folder, "_core.pyi"))
    for name in tiermap.__all__:
        thing = getattr(tiermap, name)
        assert thing.__doc__, f"{name} says nothing of itself"
    hints = typing.get_type_hints(tiermap.memmap.__new__)
    # The class that is called: a derived one makes its own.
    assert hints["subtype"] == typing.Type[hints["return"]]
    assert hints["return"].__bound__.__forward_arg__ == "memmap"
    assert typing.get_type_hints(tiermap.map)["return"] is tiermap.Array


def test_a_warning_names_the_line_of_the_script(numbers, monkeypatch):
    real = _cache._core.Cache

    class OfUserModeFaults:
        fault_mode, fault_mode_reason = "self-serving", "user-mode faults only; refused"

        def release(self):
            """Nothing was taken."""

    monkeypatch.setattr(_cache._core, "Cache", lambda **options: real(**options) if options["fault_mode"] == "notify"
                        else OfUserModeFaults())
    for call in (lambda: tiermap.Cache("1MiB"), lambda: tiermap.map(numbers[0], budget="1MiB"),
                 lambda: tiermap.memmap(numbers[0], mode="r", budget="1MiB"),
                 lambda: next(iter(tiermap.blocks(tiermap.map(numbers[0], cache=False), "64KiB")))):
        with pytest.warns(RuntimeWarning, match="EFAULT here") as seen:
            call()
        assert [warning.filename for warning in seen] == [__file__]
