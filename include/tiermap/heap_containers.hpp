// Boost's containers put together with HeapAllocator, for what is to live in a tiermap::Heap. Each hands its heap on to
// what it contains, to any depth. Made by Heap::construct() they are given the heap; elsewhere it is their
// constructor's last argument: `HeapString key("word", heap)`. Needs Boost's headers (1.74 or later).
#pragma once

#include <boost/container/map.hpp>
#include <boost/container/scoped_allocator.hpp>
#include <boost/container/string.hpp>
#include <boost/container/vector.hpp>
#include <boost/unordered_map.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "tiermap/heap_allocator.hpp"

namespace tiermap {

template <typename T>
using ScopedHeapAllocator = boost::container::scoped_allocator_adaptor<HeapAllocator<T>>;

using HeapString = boost::container::basic_string<char, std::char_traits<char>, HeapAllocator<char>>;

template <typename T>
using HeapVector = boost::container::vector<T, ScopedHeapAllocator<T>>;

template <typename Key, typename Value, typename Compare = std::less<Key>>
using HeapMap = boost::container::map<Key, Value, Compare, ScopedHeapAllocator<std::pair<const Key, Value>>>;

/// Of integers, enumerators and texts of char; for other keys name a hash of your own. Part of a heap's layout: a table
/// that is stored is searched by later programs, so that the hash must not be another with another library, as those of
/// std and Boost may be.
template <typename Key>
struct HeapHash {
  std::size_t operator()(const Key& key) const noexcept {
    if constexpr (std::is_integral_v<Key> || std::is_enum_v<Key>) {
      return mixed(static_cast<std::uint64_t>(key));
    } else {
      static_assert(sizeof(*key.data()) == 1, "a key that is no text needs a hash of its own");
      std::uint64_t value = 0xcbf29ce484222325;  // FNV-1a, whose low bits mixed() makes as good as the others.
      for (std::size_t index = 0; index < key.size(); ++index) {
        value = (value ^ static_cast<unsigned char>(key.data()[index])) * 0x100000001b3;
      }
      return mixed(value);
    }
  }

 private:
  /// The last step of splitmix64: every bit of the value reaches every bit of the result.
  static std::size_t mixed(std::uint64_t value) noexcept {
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return static_cast<std::size_t>(value ^ value >> 31);
  }
};

template <typename Key, typename Value, typename Hash = HeapHash<Key>, typename Equal = std::equal_to<Key>>
using HeapUnorderedMap =
    boost::unordered_map<Key, Value, Hash, Equal, ScopedHeapAllocator<std::pair<const Key, Value>>>;

/// What a HeapUnorderedMap with HeapStrings as keys has for a text; null if it has nothing. Makes no HeapString of it:
/// one of more than 22 bytes wants a block, and a heap that is open only for reading has none to give. A HeapMap with
/// std::less<> finds a std::string_view.
template <typename Map>
auto find_text(Map& map, std::string_view text) -> decltype(&map.begin()->second) {
  static_assert(std::is_same_v<typename Map::hasher, HeapHash<typename Map::key_type>>,
                "a map with a hash of its own is searched by its find(), with a hash of texts that agrees");
  const auto equal = [](const auto& one, const auto& other) {
    return std::string_view(one.data(), one.size()) == std::string_view(other.data(), other.size());
  };
  const auto found = map.find(text, HeapHash<std::string_view>(), equal);
  return found != map.end() ? &found->second : nullptr;
}

}  // namespace tiermap
