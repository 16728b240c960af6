#!/usr/bin/env python3
"""Containers that keep plain pointers do not compile in a heap: heap_containers.py SOURCE BUILD CXX_COMPILER.

Compiled, they would work until another process opens the heap.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDES = """\
#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/container/list.hpp>
#include <boost/container/small_vector.hpp>
#include <boost/container/static_vector.hpp>
#include <deque>
#include <forward_list>
#include <map>
#include <memory_resource>
#include <string>
#include <unordered_map>
#include <tiermap/heap.hpp>
#include <tiermap/heap_containers.hpp>
#include <tiermap/heap_fallback_allocator.hpp>
using Pair = std::pair<const int, int>;
template <typename T> struct Counting : std::allocator<T> { template <typename U> struct rebind { using other = Counting<U>; }; };
struct Mine { using allocator_type = std::allocator<int>; int value; };
struct Tree {
  using allocator_type = tiermap::HeapAllocator<Tree>;
  explicit Tree(allocator_type allocator) : below(allocator) {}
  tiermap::HeapVector<Tree> below;
};
struct Other { std::size_t words[4]; };
template <> struct tiermap::KeepsMemoryOutsideHeap<Mine> : std::false_type {};
template <> struct tiermap::KeepsMemoryOutsideHeap<Other> : std::true_type {};
"""
#: In one line, so that what is said against it names that line.
FUNCTION = ("namespace in_line_LINE { template <typename T> using A = tiermap::ALLOCATOR<T>; void fill(tiermap::Heap& heap) "
            "{ using Container = CONTAINER; auto& made = *heap.construct<Container>(\"it\")(); FILL; } }\n")
ALLOCATORS = ("HeapAllocator", "HeapFallbackAllocator")
#: By libstdc++: another library's may keep what the allocator calls a pointer.
REFUSED = {
    # Of what has nothing to do with A there would be one error only, for both of them.
    "std::vector<std::pair<int, A<int>*>>": ("made.emplace_back()", "outside the heap"),
    "std::deque<A<int>*>": ("made.emplace_back()", "outside the heap"),
    "std::unordered_map<int, int, std::hash<int>, std::equal_to<int>, A<Pair>>": ("made[1] = 2", "plain pointer"),
    "std::forward_list<int, A<int>>": ("made.push_front(1)", "plain pointer"),
    "std::vector<bool, A<bool>>": ("made.push_back(true)", "std::vector<bool>"),
    "std::vector<const char*, A<const char*>>": ("made.push_back(nullptr)", "plain pointer"),
    "boost::container::vector<void (*)(), A<void (*)()>>": ("made.push_back(nullptr)", "plain pointer"),
}
#: As objects, whatever they are filled with.
OUTSIDE = (
    "std::string", "std::map<int, int>", "std::vector<int>", "std::vector<std::string>", "std::pmr::vector<int>",
    "std::vector<int, Counting<int>>", "boost::container::vector<int>", "boost::container::small_vector<int, 4>",
    "boost::container::flat_map<int, int>", "boost::unordered_map<int, int>", "boost::container::string", "Other",
)
REFUSED |= {container: ("", "outside the heap") for container in OUTSIDE}
#: Of the heap themselves, and of what is not.
REFUSED |= {
    "boost::container::vector<std::string, A<std::string>>": ("made.emplace_back()", "outside the heap"),
    "boost::container::list<std::string, A<std::string>>": ("made.emplace_back()", "outside the heap"),
    "boost::unordered_map<int, std::string, tiermap::HeapHash<int>, std::equal_to<int>, "
    "A<std::pair<const int, std::string>>>": ("made[1]", "outside the heap"),
    "boost::container::map<std::string, int, std::less<std::string>, A<std::pair<const std::string, int>>>":
        ("made.size()", "outside the heap"),
}
TAKEN = {
    "Mine": "made.value = 1",
    "Tree": "static_cast<void>(made.below.size())",
    "std::pair<int, Mine>": "made.second.value = 1",
    "boost::container::static_vector<int, 4>": "made.push_back(1)",
    "boost::container::deque<int, A<int>>": "made.push_back(1)",
    "boost::container::flat_map<int, int, std::less<int>, A<std::pair<int, int>>>": "made.emplace(1, 2)",
    "std::vector<unsigned long, A<unsigned long>>": "made.push_back(1)",
    "std::deque<int, A<int>>": "made.push_front(1)",
    "boost::container::vector<bool, A<bool>>": "made.push_back(true)",
    "boost::container::vector<A<int>::pointer, A<A<int>::pointer>>": "made.push_back(nullptr)",
    "boost::unordered_map<int, int, tiermap::HeapHash<int>, std::equal_to<int>, A<Pair>>": "made[1] = 2",
}


def program_of(containers):
    """All containers with all allocators in one program: most of the time goes to what it includes. Also which line each
    is in."""
    text, lines = INCLUDES, {}
    for allocator in ALLOCATORS:
        for container, fill in containers.items():
            line = text.count("\n") + 1
            lines[line] = container, allocator
            text += (FUNCTION.replace("LINE", str(line)).replace("ALLOCATOR", allocator).replace("CONTAINER", container)
                     .replace("FILL", fill))
    return text, lines


def errors_of(compiler, includes, program):
    """What the compiler has against it."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "program.cpp"
        source.write_text(program)
        command = [compiler, "-std=c++20", "-fsyntax-only", *[f"-I{path}" for path in includes], str(source)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def main(source, build, compiler):
    includes = [source / "include", build / "include"]
    program, _ = program_of(TAKEN)
    complaints = [errors for errors in [errors_of(compiler, includes, program)] if errors]
    program, lines = program_of({container: fill for container, (fill, _) in REFUSED.items()})
    # Each time the compiler comes to a refusal it says from which line it came there.
    refusals = re.split(r"(?<=\n)(?=In file included|\S+: In instantiation)", errors_of(compiler, includes, program))
    def is_refused(line, reason):
        return any(f"program.cpp:{line}:" in refusal and reason in refusal for refusal in refusals)
    for line, (container, allocator) in lines.items():
        # Of what has nothing to do with an allocator there is one error, in the first of its lines.
        if "A<" not in container and allocator != ALLOCATORS[0]:
            continue
        if not is_refused(line, REFUSED[container][1]):
            complaints.append(f"{container} with {allocator} is not refused for '{REFUSED[container][1]}'")
    for complaint in complaints:
        print(complaint)
    print(f"{len(REFUSED)} containers refused, {len(TAKEN)} taken")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]))
