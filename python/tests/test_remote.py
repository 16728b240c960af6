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


def test_names_on_two_servers_are_two_arrays(server):
    for name, value in (("one", 1), ("two", 2)):
        array = tiermap.map(f"remote://{server}/{name}", dtype="int64", shape=1000, mode="w+", budget="1MiB")
        array[:] = value
        array.sync()
        del array
    one, two = (tiermap.map(f"remote://{server}/{name}", dtype="int64") for name in ("one", "two"))
    assert int(one.sum()) == 1000 and int(two.sum()) == 2000


def test_what_cannot_be_is_told_in_one_line(server):
    with pytest.raises(OSError, match="is not here") as refused:
        tiermap.map(f"remote://{server}/missing")
    assert "\n" not in str(refused.value)
    with pytest.raises(OSError, match="cannot be reached"):
        tiermap.map("remote://127.0.0.1:1/missing")
