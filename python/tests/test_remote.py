"""Arrays on the data sets of a memory server, which is a program of its own."""
import os
import pickle
import subprocess

import numpy
import pytest

import tiermap
from conftest import known

#: The `tiermap` program that goes with this package; the tests of the wheel are run beside a build.
PROGRAM = os.environ.get("TIERMAP_PROGRAM", "tiermap")


@pytest.fixture
def server():
    try:
        started = subprocess.Popen([PROGRAM, "serve", "--listen", "127.0.0.1:0", "--memory", "64MiB"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError:
        pytest.skip(f"no {PROGRAM} program to serve: name one in TIERMAP_PROGRAM")
    said = started.stdout.readline()
    if not said.startswith("listening on "):
        pytest.skip("this Tiermap serves nothing: " + started.stderr.read().strip())
    yield said.split()[2].rstrip(",")
    started.terminate()
    assert started.wait(timeout=60) == 0
    started.stdout.close()
    started.stderr.close()


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
