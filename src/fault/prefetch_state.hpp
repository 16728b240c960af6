// How far a prefetch is.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "platform/futex.hpp"

namespace tiermap {

/// Lives until the last page is settled and nobody holds it any more.
class PrefetchState {
 public:
  static std::shared_ptr<PrefetchState> make(std::uint32_t pages) {
    auto state = std::make_shared<PrefetchState>(pages);
    if (pages > 0) {
      state->itself_ = state;  // The queue holds plain pointers: it must be usable in signal handlers.
    }
    return state;
  }
  explicit PrefetchState(std::uint32_t pages) noexcept : left_(pages) {}

  /// `pages` more are settled, `resident` of them in memory.
  void settle(std::uint32_t pages, std::uint32_t resident) noexcept {
    resident_.fetch_add(resident, std::memory_order_relaxed);
    if (left_.fetch_sub(pages, std::memory_order_acq_rel) == pages) {
      const std::shared_ptr<PrefetchState> last = std::move(itself_);
      futex_wake_all(&left_);
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

 private:
  std::atomic<std::uint32_t> left_;
  std::atomic<std::uint32_t> resident_{0};
  std::shared_ptr<PrefetchState> itself_;
};

}  // namespace tiermap
