// Whether it pays to keep clean pages unmapped for a while before they go for good.
//
// A page that is unmapped by a move can be rescued without I/O, and shows by that that it is wanted. But each of the
// three changes of page tables in such a page's life (moved in, protected, moved out) interrupts the other processors,
// and from several threads that costs more than all else in a fault on a small page. A page that came by copy and is
// dropped with others costs a small part of one. Where few of the unmapped pages are ever asked for again, as with
// random accesses to much more than memory holds, dropping wins; where many are, reading them anew would cost more. So
// the rescues are counted, of the small pages that faults brought. While these are dropped, one in eight is unmapped
// all the same, and as the verdict stays the same fewer and fewer, down to one in sixty-four: each costs the others'
// time. Those few are kept for longer than all could be, and are asked for again the more often: a rescue counts only
// if the page would have been there still had all been kept.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace tiermap {

class SecondChances {
 public:
  /// One page in so many is kept while most are dropped.
  static constexpr std::uint32_t first_sampling = 8;
  static constexpr std::uint32_t last_sampling = 64;

  /// Whether most clean pages that came by copy are kept (thread-safe, as is keeps_next()).
  bool pay() const noexcept { return pay_.load(std::memory_order_relaxed); }
  /// Whether the next one that is to go is kept.
  bool keeps_next() noexcept {
    const std::uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    return pay() || turn % sampling_.load(std::memory_order_relaxed) == 0;
  }
  /// How many were to go so far; wraps.
  std::uint32_t turns() const noexcept { return turn_.load(std::memory_order_relaxed); }

  // What became of them. The caller sees to it that it is one at a time.
  void unmapped(bool judged) noexcept {
    others_ = judged ? 0 : others_ + 1;
    if (others_ == most_others) {
      // None of the pages that this is about come any more: back to where nothing is lost.
      pay_.store(true, std::memory_order_relaxed);
      unmapped_ = rescued_ = 0;
    }
    if (judged && ++unmapped_ == window) {
      const bool paid = pay();
      const std::uint32_t least_percent = paid ? least_percent_to_stay : least_percent_to_begin;
      pay_.store(rescued_ * 100 >= window * least_percent, std::memory_order_relaxed);
      const std::uint32_t sampling = sampling_.load(std::memory_order_relaxed);
      sampling_.store(paid ? first_sampling : std::min(2 * sampling, last_sampling), std::memory_order_relaxed);
      unmapped_ = rescued_ = 0;
    }
  }
  /// `since` is what turns() was when the page was unmapped, and `most_kept` how many pages there is room for.
  void rescued(std::uint32_t since, std::uint64_t most_kept) noexcept {
    rescued_ += turns() - since <= most_kept ? 1U : 0U;
  }

 private:
  static constexpr std::uint32_t window = 512;
  static constexpr std::uint32_t most_others = 4096;
  static constexpr std::uint32_t least_percent_to_begin = 30;
  static constexpr std::uint32_t least_percent_to_stay = 20;

  std::atomic<bool> pay_{true};
  std::atomic<std::uint32_t> turn_{0};
  std::atomic<std::uint32_t> sampling_{first_sampling};
  std::uint32_t unmapped_ = 0;
  std::uint32_t rescued_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace tiermap
