"""What a forked child gets of calls that its parent has begun."""


def test_a_prefetch_of_the_parent_is_over_in_the_child(tmp_path, program):
    """The parent's is still under way at the fork, and nobody ever tells the child of its end."""
    ended = program("""
        import os, sys, time
        import tiermap
        class Waiting:
            size = 1 << 20
            def read_into(self, offset, buffer):
                while not os.path.exists(sys.argv[1]):
                    time.sleep(0.01)
                buffer[:] = b"x" * len(buffer)
        array = tiermap.map(Waiting(), budget="4MiB", page_size="64KiB")
        started = array.prefetch()
        assert not started.done
        child = os.fork()
        if child == 0:
            print(started.done, started.wait(), flush=True)
            open(sys.argv[1], "w").close()
            print(bytes(array[-2:]), flush=True)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), started.wait(), started.done)
        """, tmp_path / "go on")
    assert ended.output == "True 0\nb'xx'\n0 16 True\n", ended


def test_a_pin_of_the_parent_is_none_in_the_child(numbers, program):
    """Its end neither fails there nor takes away what the child has pinned itself."""
    ended = program("""
        import os, sys
        import tiermap
        array = tiermap.map(sys.argv[1], budget="1MiB", page_size="4KiB")
        with tiermap.pin(array[:4096]):
            child = os.fork()
            mine = tiermap.pin(array[:4096]) if child == 0 else None
        if child == 0:
            for first in range(0, len(array), 4096):
                array[first:first + 4096].sum()
            before = array.stats()["fills"]
            array[:4096].sum()
            print(array.stats()["fills"] - before)
            mine.release()
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """, numbers[0])
    assert ended.output == "0\n0\n", ended
