#include "observe/counters.hpp"

#include <cmath>

namespace tiermap {

const char* counter_name(Counter counter) noexcept {
  switch (counter) {
    case Counter::read_faults:
      return "read_faults";
    case Counter::write_faults:
      return "write_faults";
    case Counter::protect_faults:
      return "protect_faults";
    case Counter::coalesced_faults:
      return "coalesced_faults";
    case Counter::fills:
      return "fills";
    case Counter::zero_fills:
      return "zero_fills";
    case Counter::rescues:
      return "rescues";
    case Counter::evictions:
      return "evictions";
    case Counter::unmaps:
      return "unmaps";
    case Counter::write_backs:
      return "write_backs";
    case Counter::read_bytes:
      return "read_bytes";
    case Counter::written_bytes:
      return "written_bytes";
    case Counter::prefetched_pages:
      return "prefetched_pages";
    case Counter::prefetch_used:
      return "prefetch_used";
    case Counter::prefetch_wasted:
      return "prefetch_wasted";
    case Counter::frame_waits:
      return "frame_waits";
    case Counter::read_errors:
      return "read_errors";
    case Counter::write_errors:
      return "write_errors";
    case Counter::window_writes:
      return "window_writes";
    case Counter::move_retries:
      return "move_retries";
    case Counter::copies:
      return "copies";
    case Counter::moves:
      return "moves";
    case Counter::batches:
      return "batches";
    case Counter::count_:
      break;
  }
  return "unknown";
}

const char* stage_name(Stage stage) noexcept {
  switch (stage) {
    case Stage::queue:
      return "queue";
    case Stage::frame:
      return "frame";
    case Stage::read:
      return "read";
    case Stage::place:
      return "place";
    case Stage::total:
      return "total";
    case Stage::count_:
      break;
  }
  return "unknown";
}

std::uint64_t LatencyHistogram::count() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t bucket : buckets) {
    sum += bucket;
  }
  return sum;
}

std::uint64_t LatencyHistogram::quantile_nanoseconds(double share) const noexcept {
  const std::uint64_t events = count();
  if (events == 0) {
    return 0;
  }
  // The rank of the event asked for, from 1; comparisons written so that a share that is no number means 0.
  const double clamped = share > 0 ? (share < 1 ? share : 1) : 0;
  const double rank = std::ceil(clamped * static_cast<double>(events));
  std::uint64_t passed = 0;
  std::uint64_t upper_end = 0;
  for (std::size_t bucket = 0; bucket < buckets.size(); ++bucket) {
    passed += buckets[bucket];
    if (buckets[bucket] != 0) {
      upper_end = (std::uint64_t{2} << bucket) - 1;
    }
    if (passed != 0 && static_cast<double>(passed) >= rank) {
      break;
    }
  }
  return upper_end;
}

Statistics CounterBlock::snapshot() const noexcept {
  Statistics statistics;
  for (std::size_t counter = 0; counter < counter_count; ++counter) {
    statistics.counters[counter] = counters[counter].load(std::memory_order_relaxed);
  }
  for (std::size_t stage = 0; stage < stage_count; ++stage) {
    for (std::size_t bucket = 0; bucket < stages[stage].size(); ++bucket) {
      statistics.stages[stage].buckets[bucket] = stages[stage][bucket].load(std::memory_order_relaxed);
    }
  }
  statistics.budget_bytes = budget_bytes.load(std::memory_order_relaxed);
  statistics.resident_bytes = resident_bytes.load(std::memory_order_relaxed);
  statistics.mapped_bytes = mapped_bytes.load(std::memory_order_relaxed);
  statistics.dirty_bytes = dirty_bytes.load(std::memory_order_relaxed);
  return statistics;
}

}  // namespace tiermap
