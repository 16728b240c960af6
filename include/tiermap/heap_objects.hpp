// What Heap's templates are made of: how an object is named, what is remembered of its type, how it is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "tiermap/heap_allocator.hpp"

namespace tiermap {

class Heap;

/// In place of a name: the one object of its type that has none.
struct UniqueObject {};
inline constexpr UniqueObject unique_object{};

/// A name, or that of a type's unique object.
struct HeapObjectKey {
  HeapObjectKey() : unique(true) {}
  explicit HeapObjectKey(std::string_view text) : name(text) {}
  std::string name;
  bool unique = false;
};

/// No heap has room for more.
inline constexpr std::size_t heap_most_bytes = std::size_t{1} << 62;

/// What is remembered of an object's type.
struct HeapType {
  const char* mangled_name;
  std::uint64_t size_bytes;
  std::uint32_t alignment;
  const char* compiler;  ///< Which names types as it likes.
};

/// Objects side by side; null if there are none.
struct HeapBlockOfObjects {
  void* first = nullptr;
  std::size_t count = 0;
};

#define TIERMAP_TEXT_OF(value) #value
#define TIERMAP_TEXT_OF_VALUE(value) TIERMAP_TEXT_OF(value)
#if defined(__clang__)
inline constexpr char heap_compiler[] = "clang " TIERMAP_TEXT_OF_VALUE(__clang_major__);
#else
inline constexpr char heap_compiler[] = "gcc " TIERMAP_TEXT_OF_VALUE(__GNUC__);
#endif
#undef TIERMAP_TEXT_OF_VALUE
#undef TIERMAP_TEXT_OF

template <typename T>
HeapType heap_type_of() noexcept {
  static_assert(std::is_object_v<T> && !std::is_array_v<T> && !std::is_const_v<T>, "a heap holds objects");
  static_assert(!std::is_pointer_v<T>, "a pointer means nothing in another process: use an offset_ptr");
  static_assert(!std::is_polymorphic_v<T>, "an object with virtual functions points into the process that made it");
  static_assert(!KeepsMemoryOutsideHeap<T>::value,
                "a container whose allocator has plain pointers keeps its memory outside the heap: give it a "
                "HeapAllocator");
  static_assert(alignof(T) <= 4096, "objects in a heap are aligned to 4096 bytes at most");
  return {typeid(T).name(), sizeof(T), alignof(T), heap_compiler};
}

/// An object at `place`; one that takes an allocator is given the heap's as its last argument.
template <typename T, typename... Arguments>
T* construct_in_heap(const Heap& heap, void* place, Arguments&&... arguments) {
  if constexpr (std::uses_allocator_v<T, HeapAllocator<std::byte>>) {
    return std::uninitialized_construct_using_allocator(static_cast<T*>(place), HeapAllocator<std::byte>(heap),
                                                        std::forward<Arguments>(arguments)...);
  } else {
    return ::new (place) T(std::forward<Arguments>(arguments)...);
  }
}

/// So many objects from `first` on. If a constructor throws, those made before are destroyed.
template <typename T, typename... Arguments>
void construct_several_in_heap(const Heap& heap, T* first, std::size_t count, const Arguments&... arguments) {
  std::size_t made = 0;
  try {
    for (; made < count; ++made) {
      construct_in_heap<T>(heap, first + made, arguments...);
    }
  } catch (...) {
    std::destroy_n(first, made);
    throw;
  }
}

/// `make(first)` makes the objects of that key, from `first` on, unless they are found. Returns the first.
template <typename T, typename Make>
T* make_or_find_in_heap(Heap& heap, const HeapObjectKey& key, bool or_find, std::size_t count, Make&& make);

/// What Heap::construct()[n] returns: call it with the arguments for each constructor.
template <typename T>
class HeapArrayMaker {
 public:
  HeapArrayMaker(Heap& heap, HeapObjectKey key, bool or_find, std::size_t count)
      : heap_(heap), key_(std::move(key)), or_find_(or_find), count_(count) {}
  /// Makes them, each with the same arguments, which are not moved from, and returns the first. What a constructor
  /// throws is passed on; then there is nothing.
  template <typename... Arguments>
  T* operator()(const Arguments&... arguments) const;

 private:
  Heap& heap_;
  HeapObjectKey key_;
  bool or_find_;
  std::size_t count_;
};

/// What Heap::construct() returns: call it with the constructor's arguments.
template <typename T>
class HeapObjectMaker {
 public:
  HeapObjectMaker(Heap& heap, HeapObjectKey key, bool or_find) : heap_(heap), key_(std::move(key)), or_find_(or_find) {}
  /// So many side by side.
  HeapArrayMaker<T> operator[](std::size_t count) const { return {heap_, key_, or_find_, count}; }
  /// Makes it, and returns it. The constructor gets the arguments as they are given here, and may move from them; where
  /// the object is found instead, they stay as they are. What it throws is passed on; then there is nothing.
  template <typename... Arguments>
  T* operator()(Arguments&&... arguments) const;

 private:
  Heap& heap_;
  HeapObjectKey key_;
  bool or_find_;
};

}  // namespace tiermap
