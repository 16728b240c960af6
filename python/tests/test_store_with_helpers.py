"""Stores written in Python that start processes when they are opened."""

import gc
import multiprocessing
import os
import signal
import time

import numpy as np
import pytest

import tiermap


class WithAHelper:
    """Of zeros; its helper lives on."""

    size = 8000

    def open(self):
        self.helper = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,), daemon=True)
        self.helper.start()

    def read_into(self, offset, buffer):
        pass

    def close(self):
        self.helper.terminate()


class KilledBesideItsHelper(WithAHelper):
    def open(self):
        super().open()
        print(self.helper.pid, flush=True)

    def read_into(self, offset, buffer):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_store_that_dies_is_noticed_beside_processes_that_it_has_started(capfd):
    array = tiermap.map(KilledBesideItsHelper(), np.int64)
    helper, begun = int(capfd.readouterr().out), time.monotonic()
    try:
        with pytest.raises(OSError):
            array.pin()
        assert time.monotonic() - begun < 500
    finally:
        os.kill(helper, signal.SIGKILL)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_store_may_start_processes_when_it_is_opened(start):
    begun = time.monotonic()
    array = tiermap.map(WithAHelper(), np.int64, start=start)
    assert array[12] == 0 and time.monotonic() - begun < 500
    del array
    gc.collect()
