// The numbers of a region or a cache once they stand still.
#pragma once

#include <chrono>
#include <thread>

#include "tiermap/tiermap.hpp"

namespace tiermap {

/// An access can go on a moment before the fault that served it is counted to its end, and evictors work in their own
/// time.
template <typename Counted>
Statistics settled(const Counted& counted) {
  Statistics before = counted.statistics();
  for (int same = 0; same < 10;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const Statistics now = counted.statistics();
    same = now.counters == before.counters && now.dirty_bytes == before.dirty_bytes ? same + 1 : 0;
    before = now;
  }
  return before;
}

}  // namespace tiermap
