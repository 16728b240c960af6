#include "fault/fill_queue.hpp"

#include <algorithm>
#include <mutex>

namespace tiermap {

FillQueue::FillQueue() {
  faults_.requests = LazyArray<FillRequest>(capacity);
  prefetches_.requests = LazyArray<FillRequest>(capacity);
}

bool FillQueue::push(const FillRequest& request, const std::atomic<std::uint32_t>* only_at_zero) noexcept {
  bool someone_idle = false;
  {
    const std::lock_guard held(lock_);
    Ring& ring = request.kind == FillKind::fault ? faults_ : prefetches_;
    const bool unwanted = only_at_zero != nullptr && only_at_zero->load() != 0;
    if (unwanted || closed_.load(std::memory_order_relaxed) || ring.size() == capacity) {
      return false;
    }
    ring.requests[ring.tail++ % capacity] = request;
    someone_idle = idle_workers_ > 0;
    epoch_.fetch_add(1, std::memory_order_release);
  }
  if (someone_idle) {
    futex_wake_one(&epoch_);
  }
  return true;
}

std::size_t FillQueue::pop(Batch& batch, std::size_t most, bool wait) noexcept {
  std::unique_lock held(lock_);
  while (wait && faults_.empty() && prefetches_.empty()) {
    if (closed_.load(std::memory_order_relaxed)) {
      return 0;
    }
    const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
    ++idle_workers_;
    held.unlock();
    futex_wait(&epoch_, epoch);
    held.lock();
    --idle_workers_;
  }
  const std::uint64_t queued = faults_.size() + prefetches_.size();
  // One each while there are idle workers for the others; a batch once every worker would come back for more at once.
  const std::uint64_t share = queued > 2 * (std::uint64_t{idle_workers_} + 1) ? batch_size : 1;
  const std::uint64_t wanted = std::min({share, std::uint64_t{most}, queued});
  std::uint64_t taken = 0;
  while (taken < wanted) {
    Ring& ring = faults_.empty() ? prefetches_ : faults_;
    const FillRequest& next = ring.requests[ring.head % capacity];
    if (next.alone && taken > 0) {
      break;
    }
    batch[taken++] = next;
    ++ring.head;
    if (next.alone) {
      break;
    }
  }
  return taken;
}

void FillQueue::close() noexcept {
  {
    const std::lock_guard held(lock_);
    closed_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
  }
  futex_wake_all(&epoch_);
}

}  // namespace tiermap
