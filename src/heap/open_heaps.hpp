// Which heaps are open in this process, and where: an allocator in a container in a heap knows the heap's first byte,
// by an offset pointer, and asks here whose that is. Nothing of a process is ever written into a heap for it.
#pragma once

#include <cstddef>

namespace tiermap {

class HeapImplementation;

/// Both are thread-safe.
void add_open_heap(const std::byte* base, HeapImplementation& heap);
void remove_open_heap(const std::byte* base) noexcept;

/// Throws OptionError if no heap is open with its first byte at `base`.
HeapImplementation& open_heap_at(const void* base);

}  // namespace tiermap
