// Waiting for a 32-bit word to change, and a mutex made of it: both may be used in signal handlers, cost no system call
// when nobody waits, and are plain memory.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace tiermap {

/// Tells the processor that this is a spin loop.
inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Sleeps while the word holds `expected`, at most `timeout_nanoseconds` (negative: for ever). May wake for no reason.
inline void futex_wait(const void* word, std::uint32_t expected, std::int64_t timeout_nanoseconds = -1) noexcept {
  timespec timeout{timeout_nanoseconds / 1'000'000'000, timeout_nanoseconds % 1'000'000'000};
  ::syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, timeout_nanoseconds < 0 ? nullptr : &timeout, nullptr, 0);
}

inline void futex_wake_all(const void* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

inline void futex_wake_one(const void* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

/// The same of a word that several processes share: sleeps while it holds `expected`, at most so many seconds
/// (negative: for ever). May wake for no reason.
inline void shared_futex_wait(const void* word, std::uint32_t expected, int timeout_seconds = -1) noexcept {
  timespec timeout{timeout_seconds, 0};
  ::syscall(SYS_futex, word, FUTEX_WAIT, expected, timeout_seconds < 0 ? nullptr : &timeout, nullptr, 0);
}

inline void shared_futex_wake_all(const void* word) noexcept {
  ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

/// A mutex. Not recursive: a signal handler that could interrupt a holder must not take it (see SignalsBlocked).
class FutexLock {
 public:
  void lock() noexcept {
    std::uint32_t free = unlocked;
    if (word_.compare_exchange_strong(free, locked, std::memory_order_acquire)) {
      return;
    }
    lock_slowly();
  }
  bool try_lock() noexcept {
    std::uint32_t free = unlocked;
    return word_.compare_exchange_strong(free, locked, std::memory_order_acquire);
  }
  void unlock() noexcept {
    if (word_.exchange(unlocked, std::memory_order_release) == contended) {
      futex_wake_one(&word_);
    }
  }

 private:
  static constexpr std::uint32_t unlocked = 0;
  static constexpr std::uint32_t locked = 1;
  static constexpr std::uint32_t contended = 2;

  void lock_slowly() noexcept {
    for (int spin = 0; spin < 100; ++spin) {
      if (word_.load(std::memory_order_relaxed) == unlocked && try_lock()) {
        return;
      }
      pause_processor();
    }
    while (word_.exchange(contended, std::memory_order_acquire) != unlocked) {
      futex_wait(&word_, contended);
    }
  }

  std::atomic<std::uint32_t> word_{unlocked};
};

}  // namespace tiermap
