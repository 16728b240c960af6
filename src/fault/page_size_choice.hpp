// Which page size serves an access, where the program chose none.
//
// Such a region is three of them over the same addresses, store and counters, each with words of its own: one of large
// pages, which is the region as its owner sees it, one of small pages, and one of wide pages. What lies in one large
// page is in memory in one size at most: whoever has claimed an absent page looks whether there are pages of another
// size where it lies, and lets go of it if so (excludes()). All say first and look then, so that of two at least one
// sees the other.
//
// Wide pages come by reading ahead only, where all of one is wanted. Between small and large ones it decides how near
// each other the misses are. The small pages missed within one large page, one soon after the other, are a visit. Where
// visits are of several small pages, one large page is read in less time than those; where they are of one or two, it
// would be read in vain, and take memory from others. While memory has room, nothing is taken from anybody, and large
// pages fill it sooner. Of large pages nobody sees how much is used: so while they serve, one in sixteen still comes in
// small pages, and as the verdict stays the same fewer, down to one in 256.
//
// What keeps pages for long, or moves their end, wants one size: before that the choice ends, with large pages.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "fault/paged_region.hpp"
#include "platform/futex.hpp"
#include "tiermap/options.hpp"

namespace tiermap {

/// Safe in signal handlers.
class PageSizeChoice {
 public:
  static constexpr std::uint64_t small_page_bytes = 4 << 10;
  static constexpr std::uint64_t wide_page_bytes = 1 << 20;
  /// Wide pages only where the budget is at least so many of them.
  static constexpr std::uint64_t least_wide_pages = 32;

  PageSizeChoice(PagedRegion& large, PagedRegion& small, PagedRegion& wide) noexcept;

  PagedRegion& large() const noexcept { return large_; }
  PagedRegion& small() const noexcept { return small_; }
  PagedRegion& wide() const noexcept { return wide_; }

  /// Which region serves an access: the one that has the page, or else the one that had better have it.
  PagedRegion& serving(const std::byte* address, bool memory_has_room) noexcept;
  /// Whether a page that is absent had better be a large one than several small ones.
  bool prefers_large(std::uint64_t large_page, bool memory_has_room) const noexcept;
  /// Whether pages of other sizes, in memory or in somebody's hands, are where a page lies.
  bool is_in_other_size(const PagedRegion& region, std::uint64_t page) const noexcept;
  /// Whether a page that was just claimed has to be let go: for those, or as the choice has ended.
  bool excludes(const PagedRegion& region, std::uint64_t page) const noexcept;
  /// Small pages in memory, or in somebody's hands, where a large page lies.
  std::uint64_t count_small(std::uint64_t large_page) const noexcept;

  /// A small page is missed. Returns whether that begins a visit. A call that meets another one at work says no, and
  /// learns nothing.
  bool missed_small(std::uint64_t page, std::uint64_t budget_bytes) noexcept;
  /// A page of another size is missed: the time that visits last is told in misses of all.
  void missed_larger() noexcept { clock_.fetch_add(1, std::memory_order_relaxed); }
  /// The large page in which a page of a smaller size lies, or the first one of a wide page.
  std::uint64_t large_page_of(const PagedRegion& region, std::uint64_t page) const noexcept {
    return (page << region.page_shift) >> large_.page_shift;
  }

  /// Whether a wide page is there.
  bool is_wide(const std::byte* address) const noexcept { return word_at(wide_, address).state() != PageState::absent; }
  /// Of the page of one of the sizes in which an address lies; of an absent one behind the last whole wide page.
  static PageWord word_at(const PagedRegion& size, const std::byte* address) noexcept {
    const std::uint64_t page = size.page_of(address);
    return page < size.table.capacity() ? size.table.load(page) : PageWord();
  }
  bool ends_wide(std::uint64_t large_page) const noexcept {
    return (large_page + 1) % (wide_.page_bytes / large_.page_bytes) == 0;
  }
  bool has_wide_pages(std::uint64_t budget_bytes) const noexcept {
    return !ended() && budget_bytes >= least_wide_pages * wide_page_bytes;
  }
  /// Calls take(region, first, count) for large pages, in wide ones as far as they are whole.
  template <typename Take>
  void split(std::uint64_t first, std::uint64_t count, Take&& take) const {
    const std::uint64_t ratio = wide_.page_bytes / large_.page_bytes;
    const std::uint64_t end = first + count;
    const std::uint64_t first_wide = (first + ratio - 1) / ratio;
    const std::uint64_t end_wide = std::min(end / ratio, wide_.page_count());
    if (first_wide >= end_wide) {
      return take(large_, first, static_cast<std::uint32_t>(count));
    }
    const auto take_some = [&](PagedRegion& region, std::uint64_t from, std::uint64_t to) {
      if (from < to) {
        take(region, from, static_cast<std::uint32_t>(to - from));
      }
    };
    take_some(large_, first, first_wide * ratio);
    take_some(wide_, first_wide, end_wide);
    take_some(large_, end_wide * ratio, end);
  }

  void advise(Advice advice) noexcept;

  /// From here on a small page comes only where there are others of the same large page, and no wide one. The caller
  /// takes out those that are there, until there are none; then close() keeps away those that two may have claimed at
  /// once, each beside the other's, and the caller looks once more.
  void end() noexcept { ended_.store(true); }
  bool ended() const noexcept { return ended_.load(); }
  void close() noexcept { closed_.store(true); }

 private:
  static constexpr std::uint32_t misses_to_judge = 128;
  static constexpr std::uint32_t least_pages_to_begin = 4;  ///< Small pages a visit, on average, for large pages.
  static constexpr std::uint32_t least_pages_to_stay = 3;
  static constexpr std::uint32_t first_sampling = 16;
  static constexpr std::uint32_t last_sampling = 256;
  static constexpr std::uint64_t longest_visit = 512;  ///< Misses of the region from a visit's first to its last.

  struct Visit {
    std::uint64_t large_page = ~std::uint64_t{0};
    std::uint64_t began = 0;
    std::uint64_t missed = 0;  ///< A bit for each small page in it.
  };

  bool sampled(std::uint64_t large_page) const noexcept;
  void judge() noexcept;

  PagedRegion& large_;
  PagedRegion& small_;
  PagedRegion& wide_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> closed_{false};
  std::atomic<bool> dense_{false};  ///< The verdict.
  std::atomic<std::uint32_t> sampling_{first_sampling};
  std::atomic<Advice> advice_{Advice::normal};
  std::atomic<std::uint64_t> clock_{longest_visit};  ///< Misses so far, and then some.
  FutexLock lock_;                                   ///< Guards what follows.
  std::array<Visit, 256> visits_{};
  std::uint32_t misses_ = 0;
  std::uint32_t begun_ = 0;
};

}  // namespace tiermap
