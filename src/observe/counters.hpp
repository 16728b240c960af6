// The numbers behind Statistics: plain atomics, added to from any thread and from signal handlers, and laid out so that
// they can live in memory that another process reads.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

#include "tiermap/statistics.hpp"

namespace tiermap {

/// Counters, histograms and gauges of one region or one cache. Zero-initialised memory is a valid CounterBlock.
struct CounterBlock {
  std::array<std::atomic<std::uint64_t>, counter_count> counters;
  std::array<std::array<std::atomic<std::uint64_t>, 40>, stage_count> stages;
  std::atomic<std::uint64_t> budget_bytes;
  std::atomic<std::uint64_t> resident_bytes;
  std::atomic<std::uint64_t> mapped_bytes;
  std::atomic<std::uint64_t> dirty_bytes;

  void add(Counter counter, std::uint64_t amount = 1) noexcept {
    counters[static_cast<std::size_t>(counter)].fetch_add(amount, std::memory_order_relaxed);
  }
  void record(Stage stage, std::uint64_t nanoseconds) noexcept {
    const unsigned bucket = nanoseconds == 0 ? 0U : static_cast<unsigned>(std::bit_width(nanoseconds)) - 1U;
    stages[static_cast<std::size_t>(stage)][bucket < 40 ? bucket : 39].fetch_add(1, std::memory_order_relaxed);
  }
  Statistics snapshot() const noexcept;
};

}  // namespace tiermap
