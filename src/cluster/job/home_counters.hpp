// What a rank asked the homes of a shared data set, and other ranks for it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

namespace tiermap {

/// Counted by any thread.
struct HomeCounters {
  explicit HomeCounters(std::vector<bool> servers_near = {}) : near(std::move(servers_near)) {}

  void note_fetched(std::uint32_t server, std::uint64_t bytes) noexcept {
    fetched_bytes.fetch_add(bytes, std::memory_order_relaxed);
    note_travelled(server, bytes);
  }
  void note_sent(std::uint32_t server, std::uint64_t bytes) noexcept {
    sent_bytes.fetch_add(bytes, std::memory_order_relaxed);
    note_travelled(server, bytes);
  }
  void note_travelled(std::uint32_t server, std::uint64_t bytes) noexcept {
    if (server < near.size() && near[server]) {
      near_bytes.fetch_add(bytes, std::memory_order_relaxed);
    }
  }

  const std::vector<bool> near;  ///< Which servers are near this rank.
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
  std::atomic<std::uint64_t> near_bytes{0};
  std::atomic<std::uint64_t> placed_bytes{0};
};

}  // namespace tiermap
