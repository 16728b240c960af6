"""Arrays on the data sets of a memory server, which is a program of its own."""
import pickle

import numpy
import pytest

import tiermap
from conftest import known

def test_an_array_is_made_and_found_again(server):
    url = f"remote://{server}/numbers"
    numbers = tiermap.map(url, dtype="int64", shape=(1000, 500), mode="w+", budget="1MiB")
    numbers[:] = known(500_000).reshape(1000, 500)
    numbers.sync()
    del numbers
    again = tiermap.map(url, dtype="int64", budget="1MiB")
    assert numpy.array_equal(again, known(500_000))
    assert numpy.array_equal(pickle.loads(pickle.dumps(again)), known(500_000))


def test_beside_it_a_file_grows_that_is_mapped(server, tmp_path):
    """The memory hooks that UCX has put into the process by then know the mremap() of four arguments alone."""
    remote = tiermap.map(f"remote://{server}/numbers", dtype="int64", shape=1000, mode="w+", budget="1MiB")
    remote[:] = 1
    first = tiermap.map(tmp_path / "out.bin", dtype="int64", shape=10_000, mode="w+", format="raw")
    first[:] = known(10_000)
    longer = tiermap.memmap(tmp_path / "out.bin", dtype="int64", shape=20_000, mode="r+")
    longer[10_000:] = first
    first[0] = -1
    assert longer[0] == -1 and numpy.array_equal(longer[10_000:], known(10_000)) and int(remote.sum()) == 1000


def test_two_names_are_two_arrays(server):
    for name, value in (("one", 1), ("two", 2)):
        array = tiermap.map(f"remote://{server}/{name}", dtype="int64", shape=1000, mode="w+", budget="1MiB")
        array[:] = value
        array.sync()
        del array
    one, two = (tiermap.map(f"remote://{server}/{name}", dtype="int64") for name in ("one", "two"))
    assert int(one.sum()) == 1000 and int(two.sum()) == 2000


def test_one_name_on_two_servers_is_two_arrays(server, other_server):
    urls = [f"remote://{address}/numbers" for address in (server, other_server)]
    arrays = [tiermap.map(url, dtype="int64", shape=1000, mode="w+", budget="1MiB") for url in urls]
    arrays[0][:], arrays[1][:] = 1, 2
    assert int(arrays[0].sum()) == 1000 and int(arrays[1].sum()) == 2000
    del arrays
    one, two = (tiermap.map(url, dtype="int64", budget="1MiB") for url in urls)
    assert int(one.sum()) == 1000 and int(two.sum()) == 2000


def test_what_is_temporary_is_another_each_time(server):
    url = f"remote://{server}/?temporary=true"
    one, two = (tiermap.map(url, dtype="int64", shape=1000, mode="w+", budget="1MiB") for _ in range(2))
    one[:], two[:] = 1, 2
    assert int(one.sum()) == 1000 and int(two.sum()) == 2000
    assert numpy.array_equal(pickle.loads(pickle.dumps(one)), one)  # A copy: nobody else can open it.


def test_a_forked_child_is_told_at_once_to_be_spawned(server, program):
    ended = program("""
        import os, sys, tiermap
        array = tiermap.map(sys.argv[1], dtype="int64", shape=1000, mode="w+", budget="1MiB")
        array[:] = 1
        array.sync()
        del array
        array = tiermap.map(sys.argv[1], dtype="int64", budget="1MiB")
        child = os.fork()
        if child == 0:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        print(array.sum())
    """, f"remote://{server}/numbers")
    assert ended.code == 0 and ended.output == "1000\n", ended
    assert "cannot be used in the forked child" in ended.errors and "spawn or forkserver" in ended.errors, ended


def test_what_cannot_be_is_told_in_one_line(server):
    with pytest.raises(OSError, match="is not here") as refused:
        tiermap.map(f"remote://{server}/missing")
    assert "\n" not in str(refused.value)
    with pytest.raises(OSError, match="cannot be reached"):
        tiermap.map("remote://127.0.0.1:1/missing")
