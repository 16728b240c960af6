// How far a prefetch is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "platform/futex.hpp"

namespace tiermap {

/// Lives until the last page is settled and nobody holds it any more. Engine threads settle pages, and may not free:
/// what has ended is freed by whoever makes the next one.
class PrefetchState {
 public:
  static std::shared_ptr<PrefetchState> make(std::uint32_t pages) {
    free_ended();
    auto state = std::make_shared<PrefetchState>(pages);
    if (pages > 0) {
      state->itself_ = state;  // The queue holds plain pointers: it must be usable in signal handlers.
    }
    return state;
  }
  explicit PrefetchState(std::uint32_t pages) noexcept : left_(pages) {}

  /// So many more are to be settled, in place of one that is not settled yet.
  void expect(std::uint32_t pages) noexcept { left_.fetch_add(pages, std::memory_order_relaxed); }
  /// `pages` more are settled, `resident` of them in memory.
  void settle(std::uint32_t pages, std::uint32_t resident) noexcept {
    resident_.fetch_add(resident, std::memory_order_relaxed);
    if (left_.fetch_sub(pages, std::memory_order_acq_rel) == pages) {
      futex_wake_all(&left_);
      next_ended_ = ended_.load(std::memory_order_relaxed);
      while (!ended_.compare_exchange_weak(next_ended_, this, std::memory_order_release, std::memory_order_relaxed)) {
      }
    }
  }
  bool done() const noexcept { return left_.load(std::memory_order_acquire) == 0; }
  std::uint64_t wait() const noexcept {
    for (std::uint32_t left = left_.load(std::memory_order_acquire); left != 0;
         left = left_.load(std::memory_order_acquire)) {
      futex_wait(&left_, left);
    }
    return resident_.load(std::memory_order_relaxed);
  }
  /// Whether it is done then; any signal ends the waiting.
  bool wait_for(std::int64_t nanoseconds) const noexcept {
    if (const std::uint32_t left = left_.load(std::memory_order_acquire); left != 0) {
      futex_wait(&left_, left, nanoseconds);
    }
    return done();
  }

 private:
  static void free_ended() noexcept {
    PrefetchState* next = ended_.exchange(nullptr, std::memory_order_acquire);
    while (next != nullptr) {
      const std::shared_ptr<PrefetchState> last = std::move(next->itself_);
      next = last->next_ended_;
    }
  }

  static inline std::atomic<PrefetchState*> ended_{nullptr};
  PrefetchState* next_ended_ = nullptr;
  std::atomic<std::uint32_t> left_;
  std::atomic<std::uint32_t> resident_{0};
  std::shared_ptr<PrefetchState> itself_;
};

}  // namespace tiermap
