// Faults and prefetches of all regions, on their way to whoever fills next. One queue and one pool of workers: a region
// with more faults gets more of the workers' time.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "fault/paged_region.hpp"
#include "fault/prefetch_state.hpp"
#include "platform/futex.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Pages first, first + step, ... of a region. For a fault: one page, in state filling already. For a prefetch: pages
/// that the worker is to claim.
struct FillRequest {
  PagedRegion* region =
      nullptr;  ///< Its `users` is counted up by whoever makes the request, and down by whoever ends it.
  std::uint64_t first = 0;
  std::int64_t step = 1;
  std::uint32_t count = 1;
  FillKind kind = FillKind::fault;
  bool write = false;
  bool alone = false;                     ///< Its read holds the worker up, perhaps for long: never part of a batch.
  bool handed_over = false;               ///< By a thread that can fill the page itself, should there be no frame.
  std::uint64_t started_nanoseconds = 0;  ///< When the fault was seen.
  PrefetchState* completion = nullptr;    ///< May be null.
};

/// Thread-safe; push() is safe in signal handlers.
class FillQueue {
 public:
  FillQueue();

  /// Faults go before prefetches. False if the queue is full, or closed: the request is still the caller's.
  bool push(const FillRequest& request, const std::atomic<std::uint32_t>* only_at_zero = nullptr) noexcept;

  static constexpr std::size_t batch_size = 16;
  using Batch = std::array<FillRequest, batch_size>;

  /// Takes work: one request, or a batch when there is so much more queued work than idle workers that handing it out
  /// one by one would cost more than the work (Peng et al., TPDS, section 3.1.1: the ratio of dispatched work to
  /// inactive workers). With nothing to do it waits if `wait`; 0 means nothing, or (after waiting) that the queue is
  /// closed.
  std::size_t pop(Batch& batch, std::size_t most, bool wait) noexcept;

  void close() noexcept;

 private:
  /// First in, first out, at most `capacity`.
  struct Ring {
    LazyArray<FillRequest> requests;
    std::uint64_t head = 0;
    std::uint64_t tail = 0;
    bool empty() const noexcept { return head == tail; }
    std::uint64_t size() const noexcept { return tail - head; }
  };
  static constexpr std::uint64_t capacity = 1 << 16;

  FutexLock lock_;  ///< Guards the rings and idle_workers_.
  Ring faults_;
  Ring prefetches_;
  std::uint32_t idle_workers_ = 0;
  std::atomic<std::uint32_t> epoch_{0};
  std::atomic<bool> closed_{false};
};

}  // namespace tiermap
