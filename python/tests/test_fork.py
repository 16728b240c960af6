"""What a forked child gets of calls that its parent has begun, and of arrays that cannot follow."""


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


def test_a_child_maps_stores_of_its_own_while_its_parent_waits_for_the_end_of_one(program):
    """The parent's thread has a lock meanwhile that the child's end of a store wants."""
    ended = program("""
        import os, threading, time
        import tiermap
        class Slow:
            size = 65536
            def read_into(self, offset, buffer):
                buffer[:] = b"s" * len(buffer)
            def close(self):
                time.sleep(1)
        class Quick(Slow):
            def close(self):
                pass
        arrays = [tiermap.map(Slow(), budget="1MiB") for _ in range(4)]
        print([int(array[0]) for array in arrays])
        thread = threading.Thread(target=arrays.clear)
        thread.start()
        children = []
        while not children or thread.is_alive() and len(children) < 6:
            time.sleep(0.05)
            children.append(os.fork())
            if children[-1] == 0:
                quick = tiermap.map(Quick(), budget="1MiB")
                assert quick[9] == ord("s")
                del quick
                os._exit(0)
        print({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
        thread.join()
        """)
    assert ended.output == "[115, 115, 115, 115]\n{0}\n", ended


def test_a_child_that_ends_says_nothing_more_of_what_could_not_follow(program):
    """Nothing is lost: its parent has it. Nor do children of the child hear of it, or calls for all of a cache fail."""
    ended = program("""
        import os, sys
        import tiermap
        cache = tiermap.Cache("1MiB")
        array = cache.map("memory:1MiB", mode="r+")
        array[:] = 1
        child = os.fork()
        if child == 0:
            cache.sync(), cache.drop()
            assert cache.mappings == []
            grandchild = os.fork()
            if grandchild != 0:
                assert os.waitpid(grandchild, 0)[1] == 0
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """)
    assert ended.code == 0, ended
    lines = ended.errors.splitlines()
    assert len(lines) == 2 and all("cannot be used in the forked child" in line for line in lines), ended


def test_a_child_maps_itself_what_could_not_follow(numbers, program):
    ended = program("""
        import os, sys
        import tiermap
        array = tiermap.map("concat:" + sys.argv[1], "i8", mode="r+", budget="1MiB")
        array[5] = 7
        child = os.fork()
        if child == 0:
            assert tiermap.map("concat:" + sys.argv[1], "i8", budget="1MiB")[5] == 7
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """, numbers[0])
    assert ended.output == "0\n", ended


def test_a_signal_handler_forks_while_a_store_in_python_is_waited_for(program):
    """The child is told so: what it waited for is done by a thread of its parent's."""
    ended = program("""
        import os, signal, time, tiermap
        class Slow:
            size = 1 << 20
            def read_into(self, offset, buffer):
                time.sleep(2)
        children = []
        def fork(*_):
            children.append(os.fork())
        array = tiermap.map(Slow(), budget="8MiB", page_size="1MiB")
        signal.signal(signal.SIGALRM, fork)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            tiermap.pin(array)
            said = "pinned"
        except ChildProcessError as error:
            said = str(error)
        if children[0] == 0:
            print(said, flush=True)
            os._exit(0)
        assert os.waitpid(children[0], 0)[1] == 0 and said == "pinned"
        """, timeout=60)
    assert ended.code == 0 and "parent of this forked child" in ended.output, ended


def test_any_number_of_children_is_served_by_the_process_of_a_store(program):
    """Of children that have ended it keeps no descriptors, which would be too many some day."""
    ended = program("""
        import os, resource
        import tiermap
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        class Letters:
            size = 1 << 20
            def read_into(self, offset, buffer):
                buffer[:] = b"x" * len(buffer)
        array = tiermap.map(Letters(), budget="256KiB", page_size="4KiB")
        codes = set()
        for page in range(120):
            child = os.fork()
            if child == 0:
                os._exit(0 if array[page * 4096] == ord("x") else 1)
            codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        print(codes, chr(array[-1]))
        """)
    assert ended.output == "{0} x\n", ended


def test_a_childs_budget_holds_for_what_it_writes(tmp_path, program):
    """That is served by another engine than what it reads."""
    ended = program("""
        import os, sys, time
        import tiermap
        with tiermap.Cache("64MiB") as cache:
            array = cache.map(sys.argv[1], "u1", 32 << 20, "w")
            if os.fork() == 0:
                cache.budget = "2MiB"
                for first in range(0, len(array), 1 << 20):
                    array[first:first + (1 << 20)] = 1
                deadline = time.monotonic() + 60
                while array.stats()["resident_bytes"] > 4 << 20 and time.monotonic() < deadline:
                    time.sleep(0.01)
                print(array.stats()["resident_bytes"] <= 4 << 20, flush=True)
                os._exit(0)
            os.wait()
        """, tmp_path / "x.bin")
    assert ended.output == "True\n", ended
