// Tells, from the pages that are missed, where a reader is going. Each region has a few streams; a miss that continues
// one (same distance as before, forward or backward, in steps of up to 64 pages) widens its window, one that continues
// none takes the stream that was quiet longest. A forward step of one page counts whatever pages in memory lie between:
// what is read in order again and again, and is larger than memory, is still there in part. Random access never
// continues a stream, so nothing is ever read for it.
//
// Many streams in little memory push out each other's pages before anybody has come to them, and what looks like
// streams may be none. So what becomes of the pages is counted: where more than half of them go untouched, all windows
// of the region are halved, and where few do they may double again. A region whose windows of one page are still in
// vain reads nothing ahead for a while, tries again, and waits twice as long each time that this is in vain too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "platform/futex.hpp"
#include "tiermap/options.hpp"

namespace tiermap {

/// Pages to read ahead: first, first + step, ... count of them. And, of a reader that said he reads in order, those
/// that he has left: behind, behind + step, ... count_behind of them.
struct ReadAhead {
  std::uint64_t first = 0;
  std::int64_t step = 1;
  std::uint32_t count = 0;
  std::uint32_t count_behind = 0;
  std::uint64_t behind = 0;
};

/// Safe in signal handlers; a call that meets another one at work detects nothing.
class StreamDetector {
 public:
  /// So many pages in memory a reader may pass between two of his faults.
  static constexpr std::uint32_t most_passed = 64;

  /// `most_pages` bounds what is ahead of one stream at any moment; with 0 nothing is read ahead.
  /// What is read ahead ends before a multiple of `aligned_pages`, where it is more than that. Of a window that is as
  /// wide as it may be, what is missing is asked for when it is `request_pages`, 1 or more.
  void configure(std::uint32_t most_pages, std::uint32_t aligned_pages = 1, std::uint32_t request_pages = 1) noexcept {
    most_pages_ = most_pages;
    aligned_pages_ = aligned_pages;
    request_pages_ = request_pages;
    widest_window_.store(most_pages, std::memory_order_relaxed);
  }
  void advise(Advice advice) noexcept;

  /// A page was missed, or found unmapped, and so many before it, one after the other, are in memory: who passed them
  /// may have raised no fault. Returns what to read ahead, count 0 for nothing.
  ReadAhead missed(std::uint64_t page, std::uint32_t in_memory_before = 0) noexcept;

  /// A page that was read ahead has been touched: the stream goes on.
  ReadAhead used(std::uint64_t page) noexcept;

  /// A page that was read ahead is gone from where it waited: somebody touched it, or it was evicted. Never blocks.
  void ended(bool touched) noexcept;

 private:
  /// So many ends, of pages and of streams, decide on the width of the windows.
  static constexpr std::uint32_t ends_to_judge = 64;
  static constexpr std::uint32_t shortest_pause = 256;
  static constexpr std::uint32_t longest_pause = 1U << 14;

  struct Stream {
    std::uint64_t last = ~std::uint64_t{0};  ///< The page seen last.
    std::uint64_t frontier = 0;              ///< The page last read ahead (or `last`).
    std::uint64_t behind = 0;                ///< The first page that was not left yet.
    std::int64_t step = 0;                   ///< 0: one page seen only.
    std::uint32_t window = 0;                ///< Pages to keep ahead.
    std::uint32_t confidence = 0;            ///< Continuations in a row.
    std::uint64_t asked_for = 0;             ///< Pages that were to be read ahead.
    bool assumed = false;                    ///< The step is only what `sequential` lets expect.
    std::uint64_t tick = 0;
  };

  bool pauses() noexcept;
  void forget(const Stream& stream) noexcept;
  ReadAhead extend(Stream& stream, std::uint64_t page) noexcept;
  static bool continues(const Stream& stream, std::int64_t moved) noexcept;
  static bool passes(std::int64_t moved, std::uint32_t in_memory_before) noexcept;
  ReadAhead begin(Stream& stream, std::uint64_t page) noexcept;
  ReadAhead turn(Stream& stream, std::int64_t step, std::uint64_t page) noexcept;
  void read_further(Stream& stream, std::uint64_t page, ReadAhead& plan) noexcept;
  void leave_behind(Stream& stream, std::uint64_t page, ReadAhead& plan) const noexcept;
  static std::int64_t distance(std::uint64_t from, std::uint64_t to) noexcept {
    return static_cast<std::int64_t>(to - from);
  }

  std::uint32_t widest_window() const noexcept { return widest_window_.load(std::memory_order_relaxed); }

  std::atomic<std::uint32_t> widest_window_{0};  ///< In pages, up to most_pages_; 0 while nothing is to be read ahead.
  std::atomic<std::uint32_t> window_in_use_{0};  ///< The widest of late.
  std::atomic<std::uint32_t> pause_{shortest_pause};  ///< Windows to be left out when that is 0.
  // A race between those who count costs a count: it is a tendency that decides.
  std::atomic<std::uint32_t> touched_{0};
  std::atomic<std::uint32_t> untouched_{0};
  FutexLock lock_;  ///< Guards everything below but what configure() sets.
  std::array<Stream, 16> streams_{};
  std::uint64_t tick_ = 0;
  std::uint32_t left_out_ = 0;  ///< Windows since it is 0.
  std::uint32_t most_pages_ = 0;
  std::uint32_t aligned_pages_ = 1;
  std::uint32_t request_pages_ = 1;
  Advice advice_ = Advice::normal;
};

}  // namespace tiermap
