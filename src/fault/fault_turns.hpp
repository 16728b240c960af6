// Turns for threads that get nowhere because memory holds fewer pages than all of them need at the same moment.
//
// An instruction may need several pages together, and its thread asks for one after the other. Where more threads do so
// than memory has pages for, the first page can be gone each time before the second is there, in all of them and for
// ever. A thread that asks again and again for what it asked for just before is such a one. It gets a turn: until it
// asks for something new, or for nothing for a while, the faults of others wait.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "platform/futex.hpp"

namespace tiermap {

/// Thread-safe, and safe in signal handlers.
class FaultTurns {
 public:
  /// Whether a thread's fault may be served now; if not, ask again in a moment. `page` is unique in the cache.
  bool admits(std::uint32_t thread, std::uint64_t page, std::uint64_t now_nanoseconds) noexcept {
    if (now_nanoseconds < turn_ends_.load(std::memory_order_relaxed) &&
        turn_of_.load(std::memory_order_relaxed) != thread) {
      return false;
    }
    const std::lock_guard held(lock_);
    Past& past = pasts_[thread % pasts_.size()];
    if (past.thread != thread) {  // Of two threads that share the place, one at a time is seen to starve.
      past = {.thread = thread};
    }
    const bool again = std::ranges::find(past.pages, page) != past.pages.end();
    past.pages[past.next++ % past.pages.size()] = page;
    past.repetitions = again ? past.repetitions + 1 : 0;
    if (past.repetitions >= enough_repetitions) {
      turn_of_.store(thread, std::memory_order_relaxed);
      turn_ends_.store(now_nanoseconds + turn_nanoseconds, std::memory_order_relaxed);
    } else if (turn_of_.load(std::memory_order_relaxed) == thread) {
      turn_ends_.store(0, std::memory_order_relaxed);
    }
    return true;
  }

 private:
  static constexpr std::uint64_t no_page = ~std::uint64_t{0};
  /// As many as one instruction can need: two for each of two operands.
  static constexpr std::size_t most_pages = 4;
  static constexpr std::uint32_t enough_repetitions = 4;
  /// From the thread's last fault: time to be woken and to run.
  static constexpr std::uint64_t turn_nanoseconds = 2'000'000;

  struct Past {
    std::uint32_t thread = 0;
    std::uint32_t repetitions = 0;  ///< Faults in a row that asked for one of the last pages again.
    std::uint32_t next = 0;
    std::array<std::uint64_t, most_pages> pages{no_page, no_page, no_page, no_page};
  };

  // Read without the lock: who meets an old value waits a moment longer, or is served once too often.
  std::atomic<std::uint32_t> turn_of_{0};
  std::atomic<std::uint64_t> turn_ends_{0};
  FutexLock lock_;  ///< Guards the rest, and writing to the two above.
  std::array<Past, 256> pasts_{};
};

}  // namespace tiermap
