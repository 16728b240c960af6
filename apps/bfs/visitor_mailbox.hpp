// Visitors on their way from thread to thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "edges/edge_source.hpp"

namespace tiermap {

struct Visitor {
  Vertex vertex;
  Vertex parent;
  std::uint32_t level;  ///< That the vertex would have.
};

/// What waits for one thread. Thread-safe.
class VisitorMailbox {
 public:
  static constexpr std::size_t batch = 64;
  static constexpr std::size_t most_waiting = 256 * batch;

  /// Puts the visitors in, and empties `visitors`. False if there is no room: then nothing has changed.
  bool deliver(std::vector<Visitor>& visitors) {
    {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() + visitors.size() > most_waiting) {
        return false;
      }
      waiting_.insert(waiting_.end(), visitors.begin(), visitors.end());
    }
    visitors.clear();
    changed_.notify_one();
    return true;
  }
  /// Takes all that waits into `visitors`, whose content goes.
  void collect(std::vector<Visitor>& visitors) {
    visitors.clear();
    const std::lock_guard lock(mutex_);
    std::swap(visitors, waiting_);
  }
  /// Waits until something is there or `over()` holds. Who makes that hold calls wake().
  template <typename Over>
  void wait(const Over& over) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !waiting_.empty() || over(); });
  }
  void wake() {
    {
      const std::lock_guard lock(mutex_);
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Visitor> waiting_;
};

}  // namespace tiermap
