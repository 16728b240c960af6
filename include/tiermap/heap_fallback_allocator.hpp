// HeapFallbackAllocator: one type of container for a tiermap::Heap and for the program's own memory. Needs Boost's
// headers (1.74 or later).
#pragma once

#include <boost/interprocess/offset_ptr.hpp>
#include <cstddef>
#include <limits>
#include <new>

#include "tiermap/heap_allocator.hpp"

namespace tiermap {

/// A HeapAllocator that may be default-constructed: then it allocates with operator new. So a function that takes a
/// container takes both those in a heap and temporary ones, which assignment copies from one to the other.
///
/// The price: a container in a heap that is not told of the heap compiles, and what it allocates is gone with the
/// process. Heap::construct() tells the object it makes, and scoped_allocator_adaptor what is in that; keep to
/// HeapAllocator wherever temporary containers are not wanted. As that, it does not go along when containers are
/// assigned or swapped, and two that are swapped have to be of one memory. Thread-safe.
template <typename T>
class HeapFallbackAllocator {
 public:
  using value_type = T;
  using pointer = boost::interprocess::offset_ptr<T>;
  using const_pointer = boost::interprocess::offset_ptr<const T>;
  using void_pointer = boost::interprocess::offset_ptr<void>;
  using const_void_pointer = boost::interprocess::offset_ptr<const void>;
  using size_type = std::size_t;
  using difference_type = std::ptrdiff_t;
  template <typename Other>
  struct rebind {
    static_assert(!BitsByPlainPointer<T, Other>, "a std::vector<bool> cannot be in a heap: use HeapVector<bool>");
    // Nodes, which a container allocates by what it rebinds to, do not tell.
    static_assert(!KeepsMemoryOutsideHeap<T>::value, "an element keeps its memory outside the heap");
    using other = HeapFallbackAllocator<Other>;
  };

  /// Of the program's own memory.
  HeapFallbackAllocator() noexcept = default;
  /// Not explicit: a heap may be handed to a container's constructor.
  HeapFallbackAllocator(const Heap& heap) noexcept : base_(base_of(heap)) {}
  template <typename Other>
  HeapFallbackAllocator(const HeapAllocator<Other>& other) noexcept : base_(other.base()) {}
  template <typename Other>
  HeapFallbackAllocator(const HeapFallbackAllocator<Other>& other) noexcept : base_(other.base()) {}

  /// Throws std::bad_alloc when there is no room; of a heap that is a HeapFullError, and OptionError for a closed one.
  pointer allocate(size_type count) {
    static_assert(!KeepsPlainPointer<T>,
                  "a plain pointer leads nowhere in another process: use offset_ptr, and containers of Boost");
    static_assert(!KeepsMemoryOutsideHeap<T>::value, "an element keeps its memory outside the heap");
    if (count > max_size()) {
      throw std::bad_array_new_length();
    }
    const size_type bytes = count * sizeof(T);
    void* const block = base() != nullptr ? allocate_in_heap(base(), bytes, alignof(T))
                                          : ::operator new(bytes, std::align_val_t(alignof(T)));
    return pointer(static_cast<T*>(block));
  }
  void deallocate(const pointer& block, size_type) {
    if (base() != nullptr) {
      deallocate_in_heap(base(), block.get());
    } else {
      ::operator delete(block.get(), std::align_val_t(alignof(T)));
    }
  }
  size_type max_size() const noexcept { return std::numeric_limits<difference_type>::max() / sizeof(T); }

  /// The heap's first byte in this process; null for the program's own memory.
  const void* base() const noexcept { return base_.get(); }

  template <typename Other>
  bool operator==(const HeapFallbackAllocator<Other>& other) const noexcept {
    return base() == other.base();
  }

 private:
  const_void_pointer base_;
};

}  // namespace tiermap
