// The threads that keep frames at hand: they unmap what the policy names, write what is dirty, and write in the
// background what flush() asked for.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "fault/pager.hpp"
#include "fault/write_back.hpp"

namespace tiermap {

class Evictors {
 public:
  Evictors(Pager& pager, std::uint32_t threads);
  ~Evictors();
  Evictors(const Evictors&) = delete;
  Evictors& operator=(const Evictors&) = delete;

  /// Writes back what is dirty in pages [first, end), in the background.
  void flush(PagedRegion& region, std::uint64_t first, std::uint64_t end);
  /// Waits until no background flush of the region is queued or running.
  void wait_for_flushes(const PagedRegion& region);

 private:
  explicit Evictors(Pager& pager) : pager_(pager) {}
  struct Flush {
    PagedRegion* region;
    std::uint64_t first;
    std::uint64_t end;
  };

  void run(WriteBack& write_back);
  void keep_house();
  struct Pass {
    std::array<std::optional<RegionUse>, WriteBack::most_pages> uses;  ///< Of the regions of the pages chosen.
    std::size_t chosen = 0;
    std::uint64_t chosen_cost = 0;  ///< Of the budget.
    std::size_t gained = 0;         ///< Pages that were let go, or wait unmapped.
    bool met_busy_pages = false;
    bool met_held_pages = false;
  };
  void give_back_what_is_over_budget();
  void unmap_victims(Pass& pass, std::uint64_t bytes, WriteBack& write_back);
  std::size_t write_victims(WriteBack& write_back);
  void evict_until_rested(WriteBack& write_back);
  bool has_looked_at_all(const Pass& pass) noexcept;
  const Flush* take_flush() noexcept;
  void finish_flush(const Flush& flush) noexcept;

  Pager& pager_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> next_tick_nanoseconds_{0};
  std::atomic<std::uint64_t> kept_in_a_row_bytes_{0};  ///< By passes that gained nothing.
  // A flush goes from list to list: who asks for it makes it, and frees those that have ended, neither with the mutex
  // held.
  std::mutex flush_mutex_;  ///< Guards the three lists.
  std::list<Flush> flushes_;
  std::list<Flush> running_flushes_;
  std::list<Flush> ended_flushes_;
  std::atomic<std::uint32_t> flush_epoch_{0};
  std::vector<std::thread> threads_;
};

/// How many pages of [first, end) write_back_range() has to write, or to wait for. Those that become dirty meanwhile
/// may not be among them.
std::uint64_t count_unwritten(Pager& pager, PagedRegion& region, std::uint64_t first, std::uint64_t end);
/// Writes back what is dirty in pages [first, end) of a region, where it is mapped, and waits for it. Returns 0 or the
/// first error. Used by sync, flush and unmap.
int write_back_range(Pager& pager, PagedRegion& region, std::uint64_t first, std::uint64_t end, WriteBack& write_back,
                     bool suspects_too = true);

}  // namespace tiermap
