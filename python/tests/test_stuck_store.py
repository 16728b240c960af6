"""A store written in Python whose call never returns: the program ends all the same, and Ctrl-C reaches who waits."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import tiermap

STUCK = """
    import os, signal, sys, threading, time
    import numpy as np
    import tiermap

    signal.signal(signal.SIGINT, signal.default_int_handler)  # Who runs this may ignore it.

    class Stuck:
        size = 1 << 20
        patience = 2

        def __init__(self, call):
            self.call = call

        def meet(self, call):
            if call == self.call:
                os.write(1, b"stuck\\n")
                time.sleep(3600)

        def read_into(self, offset, buffer):
            if offset >= 1 << 19:
                self.meet("read")
            buffer[:] = b"\\1" * len(buffer)

        def write_from(self, offset, buffer):
            self.meet("write")

        def flush(self):
            self.meet("flush")

    call = sys.argv[1]
    array = tiermap.map(Stuck(call), np.uint8, (1 << 14, 64), mode="r+", budget="8MiB", page_size="64KiB", read_ahead=0)
"""


def lines_of(errors):
    """What Tiermap has said."""
    return [line for line in errors.splitlines() if line.startswith("tiermap: ")]


# subprocess.run() returns when nobody has the pipes any more: neither the program nor the process of its store.
@pytest.mark.parametrize("call, what", [("write", "write 4096 bytes at 0"), ("flush", "flush 0 bytes at 0")])
def test_the_program_ends_and_says_what_is_lost(program, call, what):
    ended = program(STUCK + """
    array[0] = 7
    """, call)
    assert ended.code == 0 and ended.output == "stuck\n", ended
    assert len(lines_of(ended.errors)) == len(ended.errors.splitlines()) == 1, ended
    assert f"Stuck, 1MiB, writable, pages of 64KiB> is lost: the store was to {what}, and has not" in ended.errors


def test_a_read_that_nobody_waits_for_holds_nobody_up(program):
    ended = program(STUCK + """
    tiermap.prefetch(array)
    """, "read")
    assert ended.code == 0, ended
    assert len(lines_of(ended.errors)) <= 1, ended


def interrupted(text, call, number=signal.SIGINT):
    """Runs the program, and sends it a signal when its store is stuck. Its exit status, and what it printed."""
    source = textwrap.dedent(STUCK + text)
    with subprocess.Popen([sys.executable, "-c", source, call], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, env=os.environ) as running:
        try:
            assert running.stdout.readline() == "stuck\n"
            running.send_signal(number)
            output, errors = running.communicate(timeout=100)
        finally:
            running.kill()  # Nobody waits for one that is still there.
    return running.returncode, output, errors


@pytest.mark.parametrize("call, text", [
    ("read", "tiermap.pin(array)"),
    ("read", "tiermap.prefetch(array, wait=True)"),
    ("read", "array[np.arange(0, 1 << 14, 3)]"),
    ("write", "array.sync()"),
    ("write", "array.drop()"),
    ("flush", "array.sync()"),
])
def test_interrupts_reach_who_waits(call, text):
    code, output, errors = interrupted(f"""
    array[0] = 7
    try:
        {text}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    os._exit(3)
    """, call)
    assert code == 3 and output == "interrupted\n", (code, output, errors)


def test_the_store_ends_after_a_program_that_was_killed():
    code, output, errors = interrupted("""
    array[0] = 7
    array.sync()
    """, "write", signal.SIGKILL)
    assert code == -signal.SIGKILL and output == "", (code, output, errors)
    assert lines_of(errors) == ["tiermap: store Stuck was to write 4096 bytes at 0, and has not returned though the "
                                "program has ended: so does the store's process, and that is not done"]


def test_a_pin_that_was_given_up_holds_nothing(tmp_path, program):
    """The store goes on after a while: what was asked for is pinned then, and let go of."""
    ended = program("""
    import os, signal, sys, threading, time
    import tiermap

    signal.signal(signal.SIGINT, signal.default_int_handler)  # Who runs this may ignore it.

    class Slow:
        size = 1 << 20

        def read_into(self, offset, buffer):
            open(sys.argv[1] + ".asked", "w").close()
            while not os.path.exists(sys.argv[1]):
                time.sleep(0.01)
            buffer[:] = b"\\1" * len(buffer)

    def interrupt():
        while not os.path.exists(sys.argv[1] + ".asked"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    array = tiermap.map(Slow(), budget="8MiB", page_size="64KiB")
    threading.Thread(target=interrupt).start()
    try:
        tiermap.pin(array)
    except KeyboardInterrupt:
        print("interrupted")
    open(sys.argv[1], "w").close()
    deadline = time.monotonic() + 60
    tiermap.prefetch(array, wait=True)
    while tiermap.stats(array)["resident_bytes"] > 0 and time.monotonic() < deadline:
        tiermap.drop(array)  # Pinned pages stay.
        time.sleep(0.01)
    print(tiermap.stats(array)["resident_bytes"])
    """, tmp_path / "go on")
    assert ended.code == 0 and ended.output == "interrupted\n0\n", ended


@pytest.mark.parametrize("patience, error", [("x", TypeError), (None, TypeError), (True, TypeError), (0, ValueError),
                                             (-1, ValueError), (float("nan"), ValueError), (1e9, ValueError)])
def test_patience_that_cannot_be(patience, error):
    store = type("Odd", (), {"size": 10, "patience": patience, "read_into": lambda *_: None})()
    with pytest.raises(error, match="^Odd.patience is .*: give seconds, more than 0 and at most "):
        tiermap.map(store)
