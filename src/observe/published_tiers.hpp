// What `tiermap top` sees of the tiers that a region's store has: memory that another process reads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "tiermap/tiers.hpp"

namespace tiermap {

/// Numbers as those of a TierReport.
struct PublishedTier {
  char name[64];
  std::atomic<std::uint64_t> capacity_bytes;
  std::atomic<std::uint64_t> used_bytes;
  std::atomic<std::uint64_t> dirty_bytes;
  std::atomic<std::uint64_t> reads;
  std::atomic<std::uint64_t> writes;
  std::atomic<std::uint64_t> read_bytes;
  std::atomic<std::uint64_t> written_bytes;
  std::atomic<std::uint64_t> failed;  ///< 0 or 1.
};

/// Zero-initialised memory is one without tiers. Written by one thread at a time.
struct PublishedTiers {
  static constexpr std::uint32_t max_tiers = 17;  ///< Those that a store may have, and the one behind them.

  std::atomic<std::uint32_t> count;  ///< Written last; from then on names stay what they are.
  std::array<PublishedTier, max_tiers> tiers;

  void clear() noexcept { count.store(0, std::memory_order_release); }
  /// Of the same tiers each time, or after clear().
  void publish(const std::vector<TierReport>& reports) noexcept;
  /// As they were published; whatever the memory holds.
  std::vector<TierReport> observe() const;
};

}  // namespace tiermap
