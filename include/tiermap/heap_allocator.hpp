// HeapAllocator: lets containers that take an allocator with fancy pointers (those of Boost.Container, Boost.Unordered
// and Boost.Interprocess, std::vector) live in a tiermap::Heap. Needs Boost's headers (1.74 or later).
#pragma once

#include <boost/interprocess/offset_ptr.hpp>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace tiermap {

class Heap;

/// Of the heap that is open in this process with its first byte at `base`. Throw as Heap::allocate() and
/// Heap::deallocate() do; OptionError if no heap is open there, or only for reading.
void* allocate_in_heap(const void* base, std::size_t bytes, std::size_t alignment);
void deallocate_in_heap(const void* base, void* block);
/// The base of a heap. Of one that is closed it is a place where no heap is ever open.
const void* base_of(const Heap& heap) noexcept;

/// What does not compile in a heap, since it leads nowhere in another process: plain pointers, which the standard
/// library's unordered_map has a table of, and the nodes of libstdc++'s forward_list.
template <typename T>
concept KeepsPlainPointer =
    std::is_pointer_v<T> || requires(T& node) { requires std::is_pointer_v<decltype(node._M_next)>; };

/// Whether a T is a container that has its memory from the process, by an allocator with plain pointers: the next
/// process would follow them into nothing. It does not compile as an object of a heap, nor as an element of a container
/// in one, by itself or in a std::pair. What is inside other types is not looked at; for a type that is taken for such
/// a container and is none, or the other way round, specialise this.
template <typename T>
    struct KeepsMemoryOutsideHeap : std::bool_constant < requires(typename T::allocator_type& allocator) {
  requires std::is_pointer_v<typename std::allocator_traits<typename T::allocator_type>::pointer>;
  allocator.allocate(std::size_t{1});  // Boost's static_vector names an allocator that has no such thing.
}>{};
template <typename T>
struct KeepsMemoryOutsideHeap<const T> : KeepsMemoryOutsideHeap<T> {};
template <typename First, typename Second>
struct KeepsMemoryOutsideHeap<std::pair<First, Second>>
    : std::disjunction<KeepsMemoryOutsideHeap<First>, KeepsMemoryOutsideHeap<Second>> {};

/// The words that libstdc++'s vector<bool> allocates; it keeps plain pointers to them.
#ifdef __GLIBCXX__
template <typename T, typename Other>
concept BitsByPlainPointer = std::is_same_v<T, bool> && std::is_same_v<Other, unsigned long>;
#else
template <typename T, typename Other>
concept BitsByPlainPointer = false;
#endif

/// A stateful allocator: copies of it, also those inside containers in the heap, allocate in the heap it was made for,
/// in whatever process that is open. Never default-constructed, so that a container inside another that is not told of
/// the heap does not compile: a scoped_allocator_adaptor tells it (tiermap/heap_containers.hpp has it all put
/// together). It does not go along when containers are assigned or swapped; two containers that are swapped have to be
/// of one heap. Thread-safe.
template <typename T>
class HeapAllocator {
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
    using other = HeapAllocator<Other>;
  };

  /// Not explicit: a heap may be handed to a container's constructor.
  HeapAllocator(const Heap& heap) noexcept : base_(base_of(heap)) {}
  template <typename Other>
  HeapAllocator(const HeapAllocator<Other>& other) noexcept : base_(other.base()) {}

  /// Throws HeapFullError, which is a std::bad_alloc, when there is no room.
  pointer allocate(size_type count) {
    static_assert(!KeepsPlainPointer<T>,
                  "a plain pointer leads nowhere in another process: use offset_ptr, and containers of Boost");
    static_assert(!KeepsMemoryOutsideHeap<T>::value, "an element keeps its memory outside the heap");
    if (count > max_size()) {
      throw std::bad_array_new_length();
    }
    return pointer(static_cast<T*>(allocate_in_heap(base(), count * sizeof(T), alignof(T))));
  }
  void deallocate(const pointer& block, size_type) { deallocate_in_heap(base(), block.get()); }
  size_type max_size() const noexcept { return std::numeric_limits<difference_type>::max() / sizeof(T); }

  /// The heap's first byte in this process.
  const void* base() const noexcept { return base_.get(); }

  template <typename Other>
  bool operator==(const HeapAllocator<Other>& other) const noexcept {
    return base() == other.base();
  }

 private:
  const_void_pointer base_;
};

}  // namespace tiermap
