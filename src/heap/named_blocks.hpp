// Which blocks objects with names are in. Every free asks, so that the answer costs one look at a bit for all that have
// none in their page of 4 KiB.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>

#include "platform/futex.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Thread-safe. Blocks are named by their offset in the data area.
class NamedBlocks {
 public:
  explicit NamedBlocks(std::uint64_t capacity_bytes) : pages_(capacity_bytes / bytes_per_word + 1) {}

  /// Two objects may be in one block, in a heap that says so.
  void add(std::uint64_t offset) {
    const std::lock_guard lock(lock_);
    offsets_.insert(offset);
    pages_[offset / bytes_per_word].fetch_or(bit_of(offset), std::memory_order_relaxed);
  }
  void remove(std::uint64_t offset) noexcept {
    const std::lock_guard lock(lock_);
    offsets_.erase(offsets_.find(offset));
    const auto next = offsets_.lower_bound(offset / page_bytes * page_bytes);
    if (next == offsets_.end() || *next / page_bytes != offset / page_bytes) {
      pages_[offset / bytes_per_word].fetch_and(~bit_of(offset), std::memory_order_relaxed);
    }
  }
  /// Below the capacity. Whoever frees a block knows it from whoever has named it, and so sees that bit.
  bool contains(std::uint64_t offset) const {
    if ((pages_[offset / bytes_per_word].load(std::memory_order_relaxed) & bit_of(offset)) == 0) {
      return false;
    }
    const std::lock_guard lock(lock_);
    return offsets_.contains(offset);
  }

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  static constexpr std::uint64_t bytes_per_word = 64 * page_bytes;
  static std::uint64_t bit_of(std::uint64_t offset) noexcept { return 1ULL << (offset / page_bytes % 64); }

  LazyArray<std::atomic<std::uint64_t>> pages_;  ///< A bit for each that such a block begins in.
  mutable FutexLock lock_;
  std::multiset<std::uint64_t> offsets_;
};

}  // namespace tiermap
