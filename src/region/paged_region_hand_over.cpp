// What others do to a region's bytes and addresses, without a gap that a thread could fall into: a change of the store
// behind its back, and another mapping in its place.
#include <algorithm>
#include <exception>
#include <mutex>
#include <vector>

#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "region/paged_region_implementation.hpp"
#include "region/userfaultfd_engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

namespace {

/// Of a longer range only the pages that are in memory are held one by one.
constexpr std::uint64_t most_held_unused = 16384;

bool is_long(std::uint64_t pages) noexcept {
  return pages > most_held_unused;
}

}  // namespace

// Takes pages for ourselves in ascending order, so that two threads that do so cannot wait for each other; what they
// had in memory goes. Returns 0 or a negative errno value; `held` has those it came to.
int PagedRegionImplementation::hold_pages(PagedRegion& region, Pages pages, std::vector<std::uint64_t>& held) {
  // Whoever waits for our pages with this lock held (a sync) must not have to wait for us to get it.
  const std::lock_guard locked(write_mutex_);
  const bool in_long_update = is_long(pages.end - pages.first);
  const Holding holding = in_long_update ? Holding::in_long_update : Holding::page;
  int error = 0;
  const auto hold_one = [&](std::uint64_t page) {
    const int result = error == 0 ? hold_alone_locked(region, page, holding) : error;
    if (result == 0) {
      held.push_back(page);
      drop_pages(region.page_address(page), region.page_mapped(page));
      engine_->pager_.free_held(region, page);
    } else if (result < 0) {
      error = result;
    }
  };
  if (in_long_update) {
    Pager::begin_update(region, pages.first, pages.end);
    region.table.for_each_used(pages.first, pages.end, hold_one);
  } else {
    for (std::uint64_t page = pages.first; page < pages.end; ++page) {
      hold_one(page);
    }
  }
  return error;
}

// A short range is held in small pages, as long as there may be some: the program goes on to use those beside them.
bool PagedRegionImplementation::is_held_in_small_pages(ByteRange range) const noexcept {
  return choice_ != nullptr && !choice_->ended() && range.bytes <= region_.page_bytes;
}

void PagedRegionImplementation::update(ByteRange range, const std::function<void()>& change) {
  if (const Pages pages = pages_of(range); is_long(pages.end - pages.first)) {
    use_large_pages();
  }
  if (!is_held_in_small_pages(range) || !update_held(*small_, range, change)) {
    update_held(region_, range, change);
  }
}

// Returns false, and has changed nothing, if the choice of page sizes ended before the small pages were held.
bool PagedRegionImplementation::update_held(PagedRegion& region, ByteRange range, const std::function<void()>& change) {
  const Pages pages = pages_of(region, range);
  write_back(range);
  const bool is_alone = is_long(pages.end - pages.first);
  const std::unique_lock alone = is_alone ? std::unique_lock(long_update_mutex_) : std::unique_lock<std::mutex>();
  std::vector<std::uint64_t> held;
  held.reserve(std::min(pages.end - pages.first, most_held_unused));
  const auto let_all_go = [&] {
    if (is_alone) {
      engine_->pager_.end_update(region, pages.first, pages.end);
    }
    let_go(region, held);
  };
  bool chosen = true;
  try {
    if (const int error = hold_pages(region, pages, held); error != 0) {
      refuse_write_back(error);
    }
    // Whoever ends the choice says so first, and then waits for small pages that are held.
    chosen = &region == &region_ || !choice_->ended();
    if (chosen) {
      change();
    }
  } catch (...) {
    let_all_go();
    throw;
  }
  let_all_go();
  return chosen;
}

bool PagedRegionImplementation::hand_over(const std::function<bool()>& replace) {
  if (engine_->self_serving_.has_value()) {
    throw Error(ENOTSUP, "a region that serves itself cannot be handed over: use fault mode notify");
  }
  use_large_pages();
  const Pages all = all_pages(region_);
  write_back(ByteRange{0, size()});
  // From here on no fault is answered: what is absent stays so, and what is clean stays protected.
  leave_index();
  quiesce();
  const auto go_on = [&] {
    reopen();
    enter_index();
    region_.userfaultfd->wake(region_.memory, round_up(size(), block_bytes));
  };
  if (const int error = region_.writable ? write_back(region_, all) : 0; error != 0) {
    go_on();
    refuse_write_back(error);
  }
  unpin_all(all);
  engine_->pager_.retire_pages(region_, all.first, all.end);
  bool replaced = false;
  std::exception_ptr failure;
  try {
    replaced = replace();
  } catch (...) {
    failure = std::current_exception();
  }
  if (!replaced) {
    drop_pages(region_.memory, round_up(size(), block_bytes));
  }
  engine_->pager_.release_retired(region_, all.first, all.end);
  if (!replaced) {
    go_on();
    if (failure != nullptr) {
      std::rethrow_exception(failure);
    }
    return false;
  }
  taken_down_ = true;
  memory_.truncate(round_up(size(), block_bytes));
  memory_.release();
  // Who waited for us finds the new mapping.
  region_.userfaultfd->wake(region_.memory, round_up(size(), block_bytes));
  leave_engine();
  return true;
}

}  // namespace tiermap
