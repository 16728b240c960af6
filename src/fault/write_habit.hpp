// Whether small pages that are read are soon written to.
//
// A page that arrives clean is write-protected, and the first write to it costs a fault, and a change of page tables
// that interrupts the other processors. Where most pages of a region end up written, as in a key-value store that
// updates what it looks up, a page is taken for changed from the start: it arrives writable, and its checksum tells
// when it goes whether there is anything to write. What becomes of the pages is counted all the time, so that a region
// that is only read from now on is soon treated as such.
#pragma once

#include <atomic>
#include <cstdint>

namespace tiermap {

/// Thread-safe; a race between those who count costs a count.
class WriteHabit {
 public:
  /// Whether a page that is to be read had better arrive writable.
  bool expects_writes() const noexcept { return expects_.load(std::memory_order_relaxed); }

  /// A page that was read has been written to, or goes without.
  void ended(bool written) noexcept {
    const std::uint32_t all = ends_.fetch_add(1, std::memory_order_relaxed) + 1;
    const std::uint32_t writes = written_.fetch_add(written ? 1 : 0, std::memory_order_relaxed) + (written ? 1 : 0);
    if (all < ends_to_judge) {
      return;
    }
    ends_.store(0, std::memory_order_relaxed);
    written_.store(0, std::memory_order_relaxed);
    const std::uint32_t least_percent = expects_writes() ? least_percent_to_stay : least_percent_to_begin;
    expects_.store(writes * 100 >= all * least_percent, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t ends_to_judge = 256;
  static constexpr std::uint32_t least_percent_to_begin = 60;
  static constexpr std::uint32_t least_percent_to_stay = 40;

  std::atomic<bool> expects_{false};
  std::atomic<std::uint32_t> ends_{0};
  std::atomic<std::uint32_t> written_{0};
};

}  // namespace tiermap
