// Which region an address belongs to. Look-ups take no lock and may come from a signal handler; changes are rare and
// wait for look-ups under way.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "fault/paged_region.hpp"

namespace tiermap {

class RegionIndex {
 public:
  RegionIndex();
  ~RegionIndex();
  RegionIndex(const RegionIndex&) = delete;
  RegionIndex& operator=(const RegionIndex&) = delete;

  /// The region that holds the address, kept alive; empty if none.
  RegionUse find(const void* address) noexcept;

  void add(PagedRegion& region);
  /// After this no find() returns the region any more; uses that were handed out live on.
  void remove(const PagedRegion& region);
  bool empty() const noexcept;

 private:
  struct Entry {
    const std::byte* start;
    PagedRegion* region;
  };
  using Snapshot = std::vector<Entry>;  ///< Sorted by start.

  void replace(std::unique_ptr<Snapshot> next);

  /// Readers count themselves in one of these while they look at the snapshot; spread so that many threads do not share
  /// a line.
  struct alignas(64) Readers {
    std::atomic<std::uint32_t> count{0};
  };
  std::array<Readers, 16> readers_;
  std::atomic<Snapshot*> snapshot_;
  std::mutex change_mutex_;
};

}  // namespace tiermap
