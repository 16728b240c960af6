#include "fault/page_size_choice.hpp"

#include <algorithm>
#include <mutex>

namespace tiermap {
namespace {

// Neighbours fall far from each other.
std::uint64_t mixed(std::uint64_t number) noexcept {
  return (number + 1) * 0x9e3779b97f4a7c15U >> 32U;
}

/// Pages of a region, in memory or in somebody's hands, of which a part lies in these bytes.
std::uint64_t count_in(const PagedRegion& region, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t end =
      std::min((offset + bytes + region.page_bytes - 1) >> region.page_shift, region.table.capacity());
  std::uint64_t count = 0;
  for (std::uint64_t page = offset >> region.page_shift; page < end; ++page) {
    count += region.table.load_in_order(page).state() != PageState::absent ? 1U : 0U;
  }
  return count;
}

}  // namespace

PageSizeChoice::PageSizeChoice(PagedRegion& large, PagedRegion& small, PagedRegion& wide) noexcept
    : large_(large), small_(small), wide_(wide) {}

std::uint64_t PageSizeChoice::count_small(std::uint64_t large_page) const noexcept {
  return count_in(small_, large_page << large_.page_shift, large_.page_bytes);
}

bool PageSizeChoice::sampled(std::uint64_t large_page) const noexcept {
  return (mixed(large_page) & (sampling_.load(std::memory_order_relaxed) - 1)) == 0;
}

bool PageSizeChoice::prefers_large(std::uint64_t large_page, bool memory_has_room) const noexcept {
  if (ended()) {
    return true;
  }
  switch (advice_.load(std::memory_order_relaxed)) {
    case Advice::random:
      return false;
    case Advice::sequential:
      return true;
    default:
      return (memory_has_room || dense_.load(std::memory_order_relaxed)) && !sampled(large_page);
  }
}

PagedRegion& PageSizeChoice::serving(const std::byte* address, bool memory_has_room) noexcept {
  if (is_wide(address)) {
    return wide_;
  }
  const std::uint64_t large_page = large_.page_of(address);
  const bool is_large = large_.table.load(large_page).state() != PageState::absent ||
                        (prefers_large(large_page, memory_has_room) && count_small(large_page) == 0);
  return is_large ? large_ : small_;
}

bool PageSizeChoice::is_in_other_size(const PagedRegion& region, std::uint64_t page) const noexcept {
  const std::uint64_t offset = page << region.page_shift;
  for (const PagedRegion* other : {&wide_, &large_, &small_}) {
    if (other != &region && count_in(*other, offset, region.page_bytes) > 0) {
      return true;
    }
  }
  return false;
}

bool PageSizeChoice::excludes(const PagedRegion& region, std::uint64_t page) const noexcept {
  if (is_in_other_size(region, page)) {
    return true;
  }
  if (&region == &large_ || !ended()) {
    return false;
  }
  return &region == &wide_ || closed_.load() || count_small(large_page_of(region, page)) == 1;
}

bool PageSizeChoice::missed_small(std::uint64_t page, std::uint64_t budget_bytes) noexcept {
  if (!lock_.try_lock()) {
    return false;
  }
  const std::lock_guard held(lock_, std::adopt_lock);
  const std::uint64_t large_page = large_page_of(small_, page);
  Visit& visit = visits_[mixed(large_page) % visits_.size()];
  // In a small region even random misses come back to a large page soon; and in little memory it would be gone by then.
  const std::uint64_t few = std::min(large_.page_count() / 8, budget_bytes >> large_.page_shift);
  const std::uint64_t longest = std::clamp<std::uint64_t>(few, 16, longest_visit);
  const std::uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
  const bool begins = visit.large_page != large_page || now - visit.began > longest;
  if (begins) {
    visit = {large_page, now, 0};
  }
  const std::uint64_t bit = std::uint64_t{1} << (page - ((large_page << large_.page_shift) >> small_.page_shift));
  if ((visit.missed & bit) == 0) {  // A page that came back, because memory is short, is no neighbour.
    visit.missed |= bit;
    ++misses_;
    begun_ += begins ? 1U : 0U;
    judge();
  }
  return begins;
}

void PageSizeChoice::judge() noexcept {
  if (misses_ < misses_to_judge) {
    return;
  }
  const bool was_dense = dense_.load(std::memory_order_relaxed);
  const bool is_dense = misses_ >= begun_ * (was_dense ? least_pages_to_stay : least_pages_to_begin);
  misses_ = begun_ = 0;
  dense_.store(is_dense, std::memory_order_relaxed);
  const std::uint32_t sampling = sampling_.load(std::memory_order_relaxed);
  sampling_.store(was_dense && is_dense ? std::min(sampling * 2, last_sampling) : first_sampling,
                  std::memory_order_relaxed);
}

void PageSizeChoice::advise(Advice advice) noexcept {
  advice_.store(advice, std::memory_order_relaxed);
}

}  // namespace tiermap
