// Turns for threads that get nowhere because memory holds fewer pages than all of them need at the same moment.
//
// An instruction may need several pages together, and its thread asks for one after the other. Where more threads do so
// than memory has pages for, the first page can be gone each time before the second is there, in all of them and for
// ever. A thread that asks again and again for what it asked for just before is such a one. It gets a turn: the faults
// of others wait until it asks for something new, or for nothing for a while after it has been served. A turn is of few
// faults: who asks again for reasons of his own must not keep the others waiting.
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
    Past& past = past_of(thread);
    const bool again = std::ranges::find(past.pages, page) != past.pages.end();
    past.pages[past.next++ % past.pages.size()] = page;
    past.repetitions = again ? past.repetitions + 1 : 0;
    if (past.repetitions >= enough_repetitions + most_faults) {
      past.repetitions = 0;
    }
    if (past.repetitions >= enough_repetitions) {
      turn_of_.store(thread, std::memory_order_relaxed);
      turn_page_.store(page, std::memory_order_relaxed);
      turn_ends_.store(now_nanoseconds + longest_service_nanoseconds, std::memory_order_relaxed);
    } else if (turn_of_.load(std::memory_order_relaxed) == thread) {
      turn_of_.store(0, std::memory_order_relaxed);
      turn_page_.store(no_page, std::memory_order_relaxed);
      turn_ends_.store(0, std::memory_order_relaxed);
    }
    return true;
  }

  /// The page has been put into place, or could not be: whose turn it is has a while to run.
  void served(std::uint64_t page, std::uint64_t now_nanoseconds) noexcept {
    if (turn_page_.compare_exchange_strong(page, no_page, std::memory_order_relaxed)) {
      turn_ends_.store(now_nanoseconds + time_to_run_nanoseconds, std::memory_order_relaxed);
    }
  }
  /// Whether served() has anything to do.
  bool awaits(std::uint64_t page) const noexcept { return turn_page_.load(std::memory_order_relaxed) == page; }

 private:
  static constexpr std::uint64_t no_page = ~std::uint64_t{0};
  /// As many as one instruction can need: two for each of two operands.
  static constexpr std::size_t most_pages = 4;
  static constexpr std::uint32_t enough_repetitions = 4;
  static constexpr std::uint32_t most_faults = 16;
  /// A store that takes longer than that for a page does not get a turn's good of it.
  static constexpr std::uint64_t longest_service_nanoseconds = 1'000'000'000;
  /// To be woken, and to run, on a busy machine.
  static constexpr std::uint64_t time_to_run_nanoseconds = 20'000'000;

  struct Past {
    std::uint32_t thread = 0;
    std::uint32_t repetitions = 0;  ///< Faults in a row that asked for one of the last pages again.
    std::uint32_t next = 0;
    std::array<std::uint64_t, most_pages> pages{no_page, no_page, no_page, no_page};
  };

  // Where several threads share a place, those that have repeated themselves least are forgotten.
  Past& past_of(std::uint32_t thread) noexcept {
    constexpr std::size_t ways = 8;
    Past* const places = &pasts_[thread % (pasts_.size() / ways) * ways];
    Past* least = places;
    for (Past* place = places; place != places + ways; ++place) {
      if (place->thread == thread) {
        return *place;
      }
      least = place->repetitions < least->repetitions ? place : least;
    }
    return *least = {.thread = thread};
  }

  // Read without the lock: who meets an old value waits a moment longer, or is served once too often.
  std::atomic<std::uint32_t> turn_of_{0};
  std::atomic<std::uint64_t> turn_page_{no_page};  ///< What its thread waits for.
  std::atomic<std::uint64_t> turn_ends_{0};
  FutexLock lock_;  ///< Guards the rest.
  std::array<Past, 256> pasts_{};
};

}  // namespace tiermap
