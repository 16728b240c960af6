// Faults and prefetches of all regions, on their way to whoever fills next. One queue and one pool of workers: a region
// with more faults gets more of the workers' time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "fault/paged_region.hpp"
#include "fault/prefetch_state.hpp"

namespace tiermap {

/// Pages first, first + step, ... of a region. For a fault: one page, in state filling already. For a prefetch: pages that
/// the worker is to claim.
struct FillRequest {
  RegionUse region;
  std::uint64_t first = 0;
  std::int64_t step = 1;
  std::uint32_t count = 1;
  FillKind kind = FillKind::fault;
  bool write = false;
  std::uint64_t started_nanoseconds = 0;      ///< When the fault was seen.
  std::shared_ptr<PrefetchState> completion;  ///< May be empty.
};

class FillQueue {
 public:
  /// Faults go before prefetches. Thread-safe.
  void push(FillRequest request);

  /// Takes work. With nothing to do, waits if `wait`, and returns nothing when the queue is closed. Takes a batch of up to
  /// `batch_size` when there is more queued work than idle workers can be handed one by one without the handing costing more
  /// than the work (Peng et al., TPDS, section 3.1.1: the ratio of dispatched work to inactive workers).
  std::vector<FillRequest> pop(bool wait, std::size_t room, bool& batched);

  void close();

  static constexpr std::size_t batch_size = 16;

 private:
  std::mutex mutex_;  ///< Guards everything below.
  std::condition_variable changed_;
  std::deque<FillRequest> faults_;
  std::deque<FillRequest> prefetches_;
  std::size_t idle_workers_ = 0;
  bool closed_ = false;
};

}  // namespace tiermap
