// What can be said of a heap's space.
#pragma once

#include <array>
#include <cstdint>

#include "heap/size_classes.hpp"

namespace tiermap {

struct AllocatorStatistics {
  struct OfClass {
    std::uint64_t spans = 0;
    std::uint64_t live_blocks = 0;
    std::uint64_t free_slots = 0;  ///< Those in caches included.
  };
  std::array<OfClass, size_class_count> classes{};
  std::uint64_t capacity_bytes = 0;
  std::uint64_t live_blocks = 0;  ///< Large ones included.
  std::uint64_t live_bytes = 0;   ///< Their slots; of large ones what was asked for.
  std::uint64_t span_bytes = 0;   ///< Of all spans, live blocks or not.
  std::uint64_t free_slot_bytes = 0;
  std::uint64_t large_blocks = 0;
  std::uint64_t large_bytes = 0;      ///< What was asked for.
  std::uint64_t large_run_bytes = 0;  ///< In whole slabs.
  std::uint64_t free_bytes = 0;       ///< Of whole slabs that are free.
  std::uint64_t largest_free_run_bytes = 0;
  std::uint64_t used_end_bytes = 0;  ///< Nothing was ever allocated at or above this offset.

  /// How much of the space in spans and runs is not in blocks, from 0 to 1.
  double unused_share() const noexcept {
    const std::uint64_t taken = span_bytes + large_run_bytes;
    return taken == 0 ? 0 : 1 - static_cast<double>(live_bytes) / static_cast<double>(taken);
  }
  /// How much of the free space is not in the largest free run, from 0 to 1.
  double fragmentation() const noexcept {
    return free_bytes == 0 ? 0 : 1 - static_cast<double>(largest_free_run_bytes) / static_cast<double>(free_bytes);
  }
};

}  // namespace tiermap
