// The objects of a heap that have names: a table in memory while the heap is open, saved as a whole.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "heap/named_blocks.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {

/// Thread-safe.
class ObjectNames {
 public:
  /// `heap` is its path, for messages; the saved table may have so many bytes, and the data area so many.
  ObjectNames(std::string heap, std::uint64_t most_bytes, std::uint64_t capacity_bytes)
      : heap_(std::move(heap)), most_bytes_(most_bytes), capacity_bytes_(capacity_bytes), blocks_(capacity_bytes) {}

  /// Once, before anything else. Throws StoreError if that is no table of such a heap.
  void load(std::span<const std::byte> bytes);
  /// The table as it is saved (heap/heap_layout.hpp); objects that are still being made are not in it.
  std::vector<std::byte> save() const;
  /// Whether it changed since the last call of mark_saved(), by number of the change.
  std::uint64_t changes() const;

  struct Found {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;  ///< 0: there is none.
  };
  Found find(const HeapObjectKey& key, const HeapType& type);

  /// Reserves a name: the object exists once end() was called, and until then for nobody else. If there is one and
  /// `or_find`, that is returned, waiting for another thread that is making it; else it is an OptionError (EEXIST).
  /// `place` gives the offset for the new one; what it throws is passed on.
  Found begin(const HeapObjectKey& key, const HeapType& type, std::uint64_t count, bool or_find,
              const std::function<std::uint64_t()>& place);
  /// Returns the offset that `place` gave.
  std::uint64_t end(const HeapObjectKey& key, const HeapType& type, bool made);

  /// Finds and forgets.
  Found take(const HeapObjectKey& key, const HeapType& type);

  /// Throws OptionError for the block of an object that is here, or is being made: its name would stay.
  void require_nameless(std::uint64_t offset) const {
    if (blocks_.contains(offset)) {
      refuse_named(offset);
    }
  }

  std::vector<HeapObject> list() const;
  std::optional<HeapObject> attributes(const HeapObjectKey& key, const HeapType& type) const;
  /// Of the object that has the byte at `offset`.
  std::optional<HeapObject> attributes_at(std::uint64_t offset) const;
  void describe(const HeapObjectKey& key, const HeapType& type, std::string_view description);
  std::vector<std::string> warnings() const;

 private:
  struct Entry {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    std::uint64_t size_bytes = 0;
    std::uint32_t alignment = 0;
    std::string type;
    std::string compiler;
    std::string description;
    std::thread::id maker{};  ///< While it is being made.

    bool complete() const noexcept { return maker == std::thread::id(); }
  };
  /// Unique or not, and the name, of the type where it is unique.
  using Key = std::pair<bool, std::string>;
  using Entries = std::map<Key, Entry>;

  Key key_of(const HeapObjectKey& key, const HeapType& type) const;
  static HeapObject object_of(const Key& key, const Entry& entry);
  static std::uint64_t saved_bytes(const Key& key, const Entry& entry) noexcept;
  std::string display(const Key& key) const;
  void check_type(const Key& key, const Entry& entry, const HeapType& type);
  void check_room(std::uint64_t more_bytes, std::uint64_t in_place_of = 0) const;
  void forget(Entries::iterator place) noexcept;
  [[noreturn]] void refuse_named(std::uint64_t offset) const;

  const std::string heap_;
  const std::uint64_t most_bytes_;
  const std::uint64_t capacity_bytes_;
  NamedBlocks blocks_;        ///< Of all entries.
  mutable std::mutex mutex_;  ///< Guards all that follows.
  std::condition_variable made_;
  Entries entries_;
  std::uint64_t bytes_ = 0;  ///< Of the saved table.
  std::uint64_t changes_ = 0;
  std::vector<std::string> warnings_;
};

}  // namespace tiermap
