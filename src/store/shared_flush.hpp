// Making files durable whose kernel tells a failure once: of several who ask at the same moment one is told, and what
// another one wrote may be lost.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "platform/signals_blocked.hpp"

namespace tiermap {

/// One at a time. Who comes while one is under way, which may miss what he wrote, waits for the next; that is for all
/// who wait. Thread-safe.
class SharedFlush {
 public:
  /// Calls `flush`, which returns 0 or a negative errno value, or waits for another thread's call that begins after
  /// this one. After a failure every later one fails alike: the kernel has dropped what it could not write. But where
  /// `flush` leaves `passing` true nothing was lost: it is told to those who wait for this call, and tried again later.
  template <typename Flush>
  int run(Flush&& flush, const bool& passing = never) {
    const CancellationHeld whole;  // Others wait for this one's end.
    std::unique_lock held(mutex_);
    const std::uint64_t wanted = begun_ + 1;
    while (ended_ < wanted) {
      if (begun_ != ended_) {
        changed_.wait(held);
        continue;
      }
      ++begun_;
      held.unlock();
      const int result = flush();
      held.lock();
      ended_ = begun_;
      latest_ = result;
      error_ = error_ == 0 && !passing ? result : error_;
      changed_.notify_all();
    }
    return error_ == 0 ? latest_ : error_;
  }

 private:
  static constexpr bool never = false;
  std::mutex mutex_;  ///< Guards the rest.
  std::condition_variable changed_;
  std::uint64_t begun_ = 0;
  std::uint64_t ended_ = 0;
  int latest_ = 0;  ///< Of the last call that ended.
  int error_ = 0;   ///< Of the first that lost something.
};

}  // namespace tiermap
