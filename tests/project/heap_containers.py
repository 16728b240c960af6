#!/usr/bin/env python3
"""Containers that keep plain pointers do not compile in a heap: heap_containers.py SOURCE BUILD CXX_COMPILER.

Compiled, they would work until another process opens the heap.
"""
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = """\
#include <deque>
#include <forward_list>
#include <unordered_map>
#include <tiermap/heap.hpp>
#include <tiermap/heap_containers.hpp>
#include <tiermap/heap_fallback_allocator.hpp>
template <typename T> using A = tiermap::ALLOCATOR<T>;
using Pair = std::pair<const int, int>;
void fill(tiermap::Heap& heap) {
  using Container = CONTAINER;
  auto& made = *heap.construct<Container>("it")();
  FILL;
}
"""
ALLOCATORS = ("HeapAllocator", "HeapFallbackAllocator")
#: By libstdc++: another library's may keep what the allocator calls a pointer.
REFUSED = {
    "std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, A<Pair>>": ("made[1] = 2", "plain pointer"),
    "std::forward_list<int, A<int>>": ("made.push_front(1)", "plain pointer"),
    "std::vector<bool, A<bool>>": ("made.push_back(true)", "std::vector<bool>"),
    "std::vector<const char*, A<const char*>>": ("made.push_back(nullptr)", "plain pointer"),
    "boost::container::vector<void (*)(), A<void (*)()>>": ("made.push_back(nullptr)", "plain pointer"),
}
TAKEN = {
    "std::vector<unsigned long, A<unsigned long>>": "made.push_back(1)",
    "std::deque<int, A<int>>": "made.push_front(1)",
    "boost::container::vector<bool, A<bool>>": "made.push_back(true)",
    "boost::container::vector<A<int>::pointer, A<A<int>::pointer>>": "made.push_back(nullptr)",
    "boost::unordered_map<int, int, tiermap::HeapHash<int>, std::equal_to<int>, A<Pair>>": "made[1] = 2",
}


def errors_of(compiler, includes, program):
    """What the compiler has against it; None if nothing."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "program.cpp"
        source.write_text(program)
        command = [compiler, "-std=c++20", "-fsyntax-only", *[f"-I{path}" for path in includes], str(source)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        return None if result.returncode == 0 else result.stderr


def main(source, build, compiler):
    includes = [source / "include", build / "include"]
    good = True
    for allocator in ALLOCATORS:
        base = PROGRAM.replace("ALLOCATOR", allocator)
        for container, (fill, reason) in REFUSED.items():
            errors = errors_of(compiler, includes, base.replace("CONTAINER", container).replace("FILL", fill))
            if errors is None or reason not in errors:
                print(f"{container} with {allocator}: {errors or 'compiles'}")
                good = False
        for container, fill in TAKEN.items():
            errors = errors_of(compiler, includes, base.replace("CONTAINER", container).replace("FILL", fill))
            if errors is not None:
                print(f"{container} with {allocator}: {errors}")
                good = False
    print(f"{len(REFUSED)} containers refused, {len(TAKEN)} taken")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]))
