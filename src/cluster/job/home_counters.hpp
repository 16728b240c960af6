// What a rank asked the homes of a shared data set, and other ranks for it.
#pragma once

#include <atomic>
#include <cstdint>

namespace tiermap {

/// Counted by any thread.
struct HomeCounters {
  std::atomic<std::uint64_t> fetches{0};
  std::atomic<std::uint64_t> fetched_bytes{0};
  std::atomic<std::uint64_t> pulls{0};
  std::atomic<std::uint64_t> pulled_bytes{0};
  std::atomic<std::uint64_t> handed_bytes{0};
  std::atomic<std::uint64_t> node_bytes{0};
  std::atomic<std::uint64_t> sends{0};
  std::atomic<std::uint64_t> changed_bytes{0};
  std::atomic<std::uint64_t> sent_bytes{0};
  std::atomic<std::uint64_t> questions{0};
  std::atomic<std::uint64_t> news_bytes{0};
  std::atomic<std::uint64_t> dropped_blocks{0};
  std::atomic<std::uint64_t> exchanges{0};
  std::atomic<std::uint64_t> retries{0};
};

}  // namespace tiermap
