// Whether it pays to keep clean pages unmapped for a while before they go for good.
//
// A page that is unmapped by a move can be rescued without I/O, and shows by that that it is wanted. But each of the
// three changes of page tables in such a page's life (moved in, protected, moved out) interrupts the other processors,
// and from several threads that costs more than all else in a fault on a small page. A page that came by copy and is
// dropped with others costs a small part of one. Where few of the unmapped pages are ever asked for again, as with
// random accesses to much more than memory holds, dropping wins; where many are, reading them anew would cost more. So
// the rescues are counted, of the small pages that faults brought. While these are dropped, one in `sampling` is
// unmapped all the same.
#pragma once

#include <atomic>
#include <cstdint>

namespace tiermap {

class SecondChances {
 public:
  static constexpr std::uint32_t sampling = 8;

  /// Whether most clean pages that came by copy are kept (thread-safe, as is keeps_next()).
  bool pay() const noexcept { return pay_.load(std::memory_order_relaxed); }
  /// Whether the next one that is to go is kept.
  bool keeps_next() noexcept { return pay() || turn_.fetch_add(1, std::memory_order_relaxed) % sampling == 0; }

  // What became of them. The caller sees to it that it is one at a time.
  void unmapped(bool judged) noexcept {
    others_ = judged ? 0 : others_ + 1;
    if (others_ == most_others) {
      // None of the pages that this is about come any more: back to where nothing is lost.
      pay_.store(true, std::memory_order_relaxed);
      unmapped_ = rescued_ = 0;
    }
    if (judged && ++unmapped_ == window) {
      const std::uint32_t least_percent = pay() ? least_percent_to_stay : least_percent_to_begin;
      pay_.store(rescued_ * 100 >= window * least_percent, std::memory_order_relaxed);
      unmapped_ = rescued_ = 0;
    }
  }
  void rescued() noexcept { ++rescued_; }

 private:
  static constexpr std::uint32_t window = 512;
  static constexpr std::uint32_t most_others = 4096;
  static constexpr std::uint32_t least_percent_to_begin = 30;
  static constexpr std::uint32_t least_percent_to_stay = 20;

  std::atomic<bool> pay_{true};
  std::atomic<std::uint32_t> turn_{0};
  std::uint32_t unmapped_ = 0;
  std::uint32_t rescued_ = 0;
  std::uint32_t others_ = 0;
};

}  // namespace tiermap
