#include "fault/fill_queue.hpp"

#include <algorithm>
#include <utility>

namespace tiermap {

void FillQueue::push(FillRequest request) {
  {
    const std::lock_guard held(mutex_);
    (request.kind == FillKind::fault ? faults_ : prefetches_).push_back(std::move(request));
    if (idle_workers_ == 0) {
      return;
    }
  }
  changed_.notify_one();
}

std::vector<FillRequest> FillQueue::pop(bool wait, std::size_t room, bool& batched) {
  std::unique_lock held(mutex_);
  if (wait) {
    ++idle_workers_;
    changed_.wait(held, [this] { return closed_ || !faults_.empty() || !prefetches_.empty(); });
    --idle_workers_;
  }
  std::vector<FillRequest> taken;
  const std::size_t queued = faults_.size() + prefetches_.size();
  // One each while there are workers to take the others; a batch once every worker would come back for more at once.
  const std::size_t share = queued > 2 * (idle_workers_ + 1) ? batch_size : 1;
  const std::size_t most = std::min({share, room, queued});
  batched = most > 1;
  for (std::size_t index = 0; index < most; ++index) {
    std::deque<FillRequest>& from = faults_.empty() ? prefetches_ : faults_;
    taken.push_back(std::move(from.front()));
    from.pop_front();
  }
  return taken;
}

void FillQueue::close() {
  {
    const std::lock_guard held(mutex_);
    closed_ = true;
  }
  changed_.notify_all();
}

}  // namespace tiermap
