// Making a region longer and shorter in place.
#include <sched.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "config/size.hpp"
#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "region/paged_region_implementation.hpp"
#include "region/userfaultfd_engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
// Takes one page for ourselves (state busy), written back if it was dirty. Nobody can write to it from the moment it is
// being written until it is let go, so nothing can be lost in between. Returns 0 or a negative errno value.
int PagedRegionImplementation::hold_page(std::uint64_t page) {
  const std::lock_guard held(write_mutex_);
  return hold_alone_locked(region_, page, Holding::page);
}

// As hold_page_locked(), with what lies there in other sizes taken out. On an error nothing is held.
int PagedRegionImplementation::hold_alone_locked(PagedRegion& region, std::uint64_t page, Holding holding) {
  int result = hold_page_locked(region, page, holding);
  if (result == 0) {
    result = take_out_around_locked(region, page);
    if (result != 0) {  // It was absent then, and what could not be written is there still.
      engine_->pager_.let_go(region, page);
    }
  }
  return result;
}

// Called with write_mutex_ held. left_to_others is returned of what is not ours to hold, nor to drop: a page that
// somebody has left to a long update() that is ours, as good as held; and where the page size is chosen a page that has
// gone, once pages of another size have come where it lay.
int PagedRegionImplementation::hold_page_locked(PagedRegion& region, std::uint64_t page, Holding holding) {
  Pager& pager = engine_->pager_;
  while (true) {
    PageWord word = region.table.load(page);
    if (holding == Holding::in_long_update && word.for_update()) {
      return left_to_others;
    }
    if (word.owned()) {
      region.table.wait(page, word);
      continue;
    }
    // Under manual flushing a page that only may have changed is looked at by hold(), and one that has is not ours to
    // write.
    if (!pager.wants_cleaning(word) || (region.manual_flush && word.state() == PageState::clean)) {
      if (!pager.hold(region, page, word)) {
        continue;
      }
      const bool has_gone = holding == Holding::of_chosen_size && word.state() == PageState::absent;
      return has_gone && left_to_other_sizes(region, page) ? left_to_others : 0;
    }
    if (region.manual_flush) {
      return -EBUSY;
    }
    if (!pager.begin_cleaning(region, page, word)) {
      continue;
    }
    int result = 0;
    bool taken = false;
    write_back_->add(region, page, word.frame());
    write_back_->run([&](PagedRegion& written_to, std::uint64_t written, int error) {
      result = error;
      if (error != 0) {
        pager.finish_cleaning(written_to, written, error);
      } else {
        taken = pager.hold_cleaned(written_to, written);
      }
    });
    if (taken || result != 0) {
      return result;
    }
    ::sched_yield();  // A device is at work on the page.
  }
}

// Makes the addresses from the start of page `first` absent, and those of the region from `keep_bytes` on unreachable.
void PagedRegionImplementation::close_range(std::uint64_t first, std::uint64_t keep_bytes) {
  const std::uint64_t end = round_up(size(), block_bytes);
  const std::uint64_t start = std::min(first << region_.page_shift, end);
  drop_pages(region_.memory + start, end - start);
  const std::uint64_t kept = round_up(keep_bytes, block_bytes);
  forbid(kept, end);
}

// Accesses to [from, end) raise SIGSEGV from here on, those of threads that wait in a fault too.
void PagedRegionImplementation::forbid(std::uint64_t from, std::uint64_t end) noexcept {
  if (from < end) {
    ::mprotect(region_.memory + from, end - from, PROT_NONE);
    region_.userfaultfd->unregister_range(region_.memory + from, end - from);
  }
}

void PagedRegionImplementation::refuse_resize(int error) const {
  if (region_.manual_flush && error == -EBUSY) {
    throw Error(EBUSY, "the page where " + region_.store->name() +
                           " is to grow or be cut has changes that are not to be written unasked: sync() or discard() "
                           "it, then resize");
  }
  throw Error(-error, "cannot write back to " + region_.store->name() +
                          " before it is resized: " + std::strerror(-error) + "; free the cause and try again");
}

void PagedRegionImplementation::resize(std::uint64_t length) {
  if (length == size()) {
    return;
  }
  if (length > size() && region_.writable && !region_.store->growable() &&
      region_.store_offset + length > region_.store->size_bytes()) {
    throw OptionError(region_.store->name() + " has " + std::to_string(region_.store->size_bytes()) +
                      " bytes and cannot grow: choose a smaller length");
  }
  length > size() ? grow(length) : shrink(length);
  if (published_ != nullptr) {
    published_->length_bytes.store(length, std::memory_order_relaxed);
  }
}

void PagedRegionImplementation::grow(std::uint64_t length) {
  const std::uint64_t wanted = round_up(length, block_bytes);
  const std::uint64_t before = size();
  if (wanted / region_.page_bytes + 1 > region_.table.capacity() ||
      (wanted > memory_.size() && !memory_.extend(wanted, PROT_NONE))) {
    throw Error(ENOMEM, "cannot grow to " + format_size(length) +
                            " where the region lies: map it with reserve_bytes of at least that");
  }
  if (choice_ != nullptr && wanted / small_->page_bytes + 1 > small_->table.capacity()) {
    use_large_pages();
  }
  // A last page shorter than the others becomes longer: it must not be in memory with its old length, and others who
  // use it must not see it before it has the new one.
  const std::uint64_t last = before >> region_.page_shift;
  const bool last_is_short = last < region_.page_count();
  if (last_is_short) {
    if (const int error = hold_page(last); error != 0) {
      refuse_resize(error);
    }
    close_range(last, before);
    engine_->pager_.free_held(region_, last);
  }
  try {
    open_range(before, length);
    set_length(length);
    reckon_whole_bytes(region_.page_count());
  } catch (...) {
    if (last_is_short) {
      engine_->pager_.let_go(region_, last);
    }
    throw;
  }
  if (last_is_short) {
    let_go(region_, {&last, 1});
  }
}

void PagedRegionImplementation::shrink(std::uint64_t length) {
  use_large_pages();
  const std::uint64_t cut = length >> region_.page_shift;  // The page that stays in part, if the cut is inside one.
  const bool inside = (length & (region_.page_bytes - 1)) != 0;
  const Pages going{inside ? cut + 1 : cut, region_.page_count()};
  int error = region_.manual_flush ? 0 : write_back(region_, going);
  if (error == 0) {
    // Faults on what stays may go on; only prefetches could still want a page of what goes.
    region_.going_from.store(going.first);
    region_.closing.store(true);
    while (region_.claiming.load() != 0) {
      ::sched_yield();
    }
    error = inside ? hold_page(cut) : 0;
  }
  if (error != 0) {
    reopen();
    refuse_resize(error);
  }
  unpin_all(going);
  engine_->pager_.retire_pages(region_, going.first, going.end);
  close_range(cut, length);
  engine_->pager_.release_retired(region_, going.first, going.end);
  if (inside) {
    engine_->pager_.free_held(region_, cut);
  }
  set_length(length);
  reckon_whole_bytes(region_.page_count());
  if (inside) {
    let_go(region_, {&cut, 1});
  }
  reopen();
}

// What is left of the region may be used as before.
void PagedRegionImplementation::reopen() noexcept {
  region_.going_from.store(~std::uint64_t{0});
  region_.closing.store(false, std::memory_order_release);
}

// Pages that were held for a change may be used again, and those that are pinned come back at once. One that cannot be
// read is read by whoever touches it next, and its error is told to him: the change is done, and others wait for the
// rest of the pages.
void PagedRegionImplementation::let_go(PagedRegion& region, std::span<const std::uint64_t> pages) noexcept {
  for (const std::uint64_t page : pages) {
    engine_->pager_.let_go(region, page);
  }
  for (const std::uint64_t page : pages) {
    if (region.table.load(page).pins() > 0) {  // Then there is one size.
      try {
        make_resident(page, false);
      } catch (...) {  // See above.
      }
    }
  }
}

}  // namespace tiermap
