#include "region/paged_region_implementation.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "config/size.hpp"
#include "fault/fill_worker.hpp"
#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "region/userfaultfd_engine.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

bool gives_extents(const Store& store, std::uint64_t offset, std::uint64_t bytes) {
  Extent extent;
  return store.locate_read(offset, std::min<std::uint64_t>(bytes, block_bytes), extent);
}

}  // namespace

PagedRegionImplementation::PagedRegionImplementation(std::shared_ptr<UserfaultfdEngine> engine,
                                                     std::shared_ptr<Store> store, const RegionOptions& options,
                                                     const ResolvedRegionOptions& resolved)
    : engine_(std::move(engine)), private_copy_(options.sharing == Sharing::private_copy) {
  region_.store = std::move(store);
  region_.store_offset = options.offset;
  region_.length.store(options.length);
  region_.page_bytes = resolved.page_size_bytes;
  region_.page_shift = static_cast<unsigned>(std::countr_zero(resolved.page_size_bytes));
  region_.writable = options.access == Access::read_write;
  region_.manual_flush = options.manual_flush;
  region_.store_is_direct = gives_extents(*region_.store, options.offset, options.length);
  region_.reads_in_signal_handler = region_.store->reads_in_signal_handler();
  reserve(options);
  // Under manual flushing what is dirty cannot be taken out when one page size is wanted after all.
  if (resolved.page_size_follows_access && engine_->chooses_page_sizes() && !options.manual_flush) {
    add_sizes();
  }
  engine_->attach(*this);
  try {
    if (engine_->recorder_ != nullptr) {
      for_each_size([&](const PagedRegion& region) {
        engine_->recorder_->begin_region(region.id, region.page_bytes, options.length, region.store->name(),
                                         region.id != region_.id);
      });
    }
    open_range(0, options.length);
    published_ = engine_->publication_.add_region(region_.store->name(), options.length, region_.page_bytes);
    if (published_ == nullptr) {
      own_counters_ = std::make_unique<CounterBlock>();
    }
    region_.counters = published_ != nullptr ? &published_->counters : own_counters_.get();
    // A window that fills much of the budget would push out what the program uses now.
    const std::uint64_t most_ahead = std::min(resolved.read_ahead_bytes, engine_->budget_bytes() / 8);
    const std::uint64_t request = std::max(most_run_bytes(engine_->budget_bytes()), region_.page_bytes);
    region_.streams->configure(
        static_cast<std::uint32_t>(most_ahead / region_.page_bytes),
        choice_ == nullptr ? 1 : static_cast<std::uint32_t>(wide_->page_bytes / region_.page_bytes),
        static_cast<std::uint32_t>(request / region_.page_bytes));
    region_.streams->advise(options.advice);
    write_back_ = std::make_unique<WriteBack>(engine_->pager_, 0);
    if (choice_ != nullptr) {
      small_->counters = wide_->counters = region_.counters;
      choice_->advise(options.advice);
      region_.choice = small_->choice = wide_->choice = choice_.get();
    }
    if (region_.writable) {
      engine_->pager_.writable_regions.fetch_add(1);
    }
    if (region_.reads_may_block()) {
      engine_->pager_.blocking_regions.fetch_add(1);
    }
    reckon_whole_bytes(region_.page_count());
    enter_index();
    if (published_ != nullptr) {
      region_.store->show_tiers(published_->tiers, true);
    }
  } catch (...) {
    engine_->detach(*this);
    throw;
  }
}

PagedRegionImplementation::~PagedRegionImplementation() {
  take_down();
}

// From here on faults are served.
void PagedRegionImplementation::enter_index() {
  if (engine_->self_serving_.has_value()) {
    engine_->self_serving_->attach(region_);
  } else {
    engine_->index_.add(region_);
  }
}

void PagedRegionImplementation::leave_index() noexcept {
  if (engine_->self_serving_.has_value()) {
    engine_->self_serving_->detach(region_);
  } else {
    engine_->index_.remove(region_);
  }
}

// Address space for the region and what it may grow to; only what open_range() opens can be touched.
void PagedRegionImplementation::reserve(const RegionOptions& options) {
  reserved_bytes_ = round_up(std::max(options.length, options.reserve_bytes), block_bytes);
  const std::uint64_t alignment = std::min(region_.page_bytes, huge_page_bytes);
  memory_ = options.address == nullptr
                ? AddressRange::reserve(reserved_bytes_, alignment, PROT_NONE)
                : AddressRange::reserve_at(options.address, reserved_bytes_, PROT_NONE, options.replacement);
  region_.memory = memory_.data();
  region_.table = table_of(region_.page_bytes);
}

// Room for words of pages beyond the reservation costs address space only.
PageTable PagedRegionImplementation::table_of(std::uint64_t page_bytes) const {
  return PageTable((reserved_bytes_ / page_bytes + 1) * 2 + (std::uint64_t{1} << 20));
}

void PagedRegionImplementation::open_range(std::uint64_t from, std::uint64_t to) {
  const std::uint64_t first = round_up(from, block_bytes);
  const std::uint64_t end = round_up(to, block_bytes);
  if (first == end) {
    return;
  }
  std::byte* start = region_.memory + first;
  ::madvise(start, end - first, region_.page_bytes >= huge_page_bytes ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  const int error =
      region_.userfaultfd->register_range(start, end - first, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
  if (error != 0) {
    throw PlatformError(-error, "cannot register the region with userfaultfd: use fault mode kernel");
  }
  // Last: whoever touches it before its time must find no zeros.
  if (::mprotect(start, end - first, PROT_READ | PROT_WRITE) != 0) {
    throw PlatformError(errno, "cannot open " + format_size(end - first) + " of address space: map less");
  }
}

PagedRegionImplementation::Pages PagedRegionImplementation::pages_of(const PagedRegion& region,
                                                                     ByteRange range) noexcept {
  const std::uint64_t end = (range.offset + range.bytes + region.page_bytes - 1) >> region.page_shift;
  // There are no wide pages behind the last whole one.
  return {range.offset >> region.page_shift, std::min(end, region.page_count())};
}

std::shared_ptr<PrefetchState> PagedRegionImplementation::prefetch(std::span<const ByteRange> ranges) {
  // More than memory can hold would evict its own beginning. Copying takes a second frame for each page under way.
  const std::uint64_t quarters = engine_->move_ ? 3 : 2;
  std::uint64_t room = engine_->budget_bytes() / 4 * quarters;
  std::uint64_t total = 0;
  struct Wanted {
    PagedRegion* region;
    Pages pages;
  };
  std::vector<Wanted> wanted;
  for (const ByteRange& range : ranges) {
    if (range.bytes == 0) {
      continue;
    }
    PagedRegion& region = prefetched_in(range);
    const std::uint64_t cost = FramePool::cost(region.page_bytes);
    Pages pages = pages_of(region, range);
    pages.end = std::min(pages.end, pages.first + std::min<std::uint64_t>(room / cost, std::uint64_t{1} << 30));
    room -= (pages.end - pages.first) * cost;
    const auto want = [&](PagedRegion& part, std::uint64_t first, std::uint64_t count) {
      total += count;
      wanted.push_back({&part, {first, first + count}});
    };
    if (&region == &region_ && choice_ != nullptr && choice_->has_wide_pages(engine_->budget_bytes())) {
      choice_->split(pages.first, pages.end - pages.first, want);
    } else {
      want(region, pages.first, pages.end - pages.first);
    }
  }
  auto state = PrefetchState::make(static_cast<std::uint32_t>(total));
  for (const Wanted& piece : wanted) {
    constexpr std::uint64_t bytes_a_request = 4 << 20;  // Small enough that several fillers share the work.
    const std::uint64_t pages_a_request = std::max<std::uint64_t>(1, bytes_a_request / piece.region->page_bytes);
    for (std::uint64_t first = piece.pages.first; first < piece.pages.end; first += pages_a_request) {
      const auto count = static_cast<std::uint32_t>(std::min(pages_a_request, piece.pages.end - first));
      engine_->fillers_.prefetch(*piece.region, {first, 1, count}, state.get());
    }
  }
  return state;
}

// Waits until the page is mapped, and adds a pin in the same instant if asked. Returns whether that was the page's
// first.
bool PagedRegionImplementation::make_resident(std::uint64_t page, bool pinned) {
  Pager& pager = engine_->pager_;
  while (true) {
    PageWord word;
    int error = 0;
    switch (pager.resolve(region_, page, false, word, error)) {
      case Resolution::done:
        word = region_.table.load(page);
        if (pinned && word.pins() == most_pins) {
          throw Error(EOVERFLOW, "page " + std::to_string(page) + " is pinned 65535 times already: unpin it");
        }
        if (word.mapped() && (!pinned || add_pin(page, word))) {
          return pinned && word.pins() == 0;
        }
        continue;
      case Resolution::wait:
        region_.table.wait(page, word);
        continue;
      case Resolution::moved:  // By one who lets go of it again: there are large pages only.
        ::sched_yield();
        continue;
      case Resolution::fill:
        engine_->fillers_.fill(region_, page, false, 0);
        continue;
      case Resolution::failed:
        throw Error(EIO, "cannot read page " + std::to_string(page) + " of " + region_.store->name() +
                             ": the store failed, or memory is full of what cannot be evicted; try again later");
    }
  }
}

std::uint64_t PagedRegionImplementation::page_cost() const noexcept {
  return FramePool::cost(region_.page_bytes);
}

bool PagedRegionImplementation::add_pin(std::uint64_t page, PageWord word) noexcept {
  if (!region_.table.change(page, word, word.with_pins(word.pins() + 1))) {
    return false;
  }
  if (word.pins() == 0) {
    region_.pinned_bytes.fetch_add(page_cost());
    engine_->pinned_bytes_.fetch_add(page_cost());
  }
  return true;
}

bool PagedRegionImplementation::remove_pin(std::uint64_t page) noexcept {
  PageWord word = region_.table.load(page);
  while (word.pins() > 0 && !region_.table.change(page, word, word.with_pins(word.pins() - 1))) {
  }
  if (word.pins() == 1) {
    region_.pinned_bytes.fetch_sub(page_cost());
    engine_->pinned_bytes_.fetch_sub(page_cost());
    engine_->pager_.no_longer_full();
  }
  return word.pins() > 0;
}

// Those too that could not be read again since they were pinned.
void PagedRegionImplementation::unpin_all(Pages pages) noexcept {
  region_.table.for_each_used_nearby(pages.first, pages.end, [this](std::uint64_t page) {
    while (remove_pin(page)) {
    }
  });
}

void PagedRegionImplementation::pin(ByteRange range) {
  use_large_pages();
  const Pages pages = pages_of(range);
  std::uint64_t new_pages = 0;
  for (std::uint64_t page = pages.first; page < pages.end; ++page) {
    new_pages += region_.table.load(page).pins() == 0 ? 1U : 0U;
  }
  UserfaultfdEngine::PinPromise promise(*engine_, new_pages * page_cost(), range.bytes);
  std::uint64_t page = pages.first;
  try {
    prefetch({&range, 1})->wait();
    for (; page < pages.end; ++page) {
      if (make_resident(page, true) && new_pages > 0) {
        --new_pages;
        promise.keep(page_cost());
      }
    }
  } catch (...) {
    while (page-- > pages.first) {
      remove_pin(page);
    }
    throw;
  }
}

void PagedRegionImplementation::unpin(ByteRange range) {
  const Pages pages = pages_of(range);
  for (std::uint64_t page = pages.first; page < pages.end; ++page) {
    if (region_.table.load(page).pins() == 0) {
      throw OptionError("page " + std::to_string(page) + " is not pinned: unpin what was pinned");
    }
  }
  for (std::uint64_t page = pages.first; page < pages.end; ++page) {
    remove_pin(page);
  }
}

void PagedRegionImplementation::advise(Advice advice, ByteRange range) {
  switch (advice) {
    case Advice::normal:
    case Advice::sequential:
    case Advice::random:
      region_.streams->advise(advice);
      if (choice_ != nullptr) {
        choice_->advise(advice);
      }
      return;
    case Advice::will_need:
      prefetch({&range, 1});
      return;
    case Advice::dont_need:
      return drop(range, true);
    case Advice::cold:
    case Advice::hot:
      for_each_size([&](PagedRegion& region) {
        const Pages pages = pages_of(region, range);
        region.table.for_each_used(pages.first, pages.end, [&](std::uint64_t page) {
          engine_->pager_.advise(region, page, advice == Advice::hot ? Hotness::hot : Hotness::cold);
        });
      });
      return;
  }
}

void PagedRegionImplementation::make_room(ByteRange range) {
  drop(range, false);
}

// What was moved out into its frame, to be written or looked at, has its memory there.
void PagedRegionImplementation::drop(ByteRange range, bool to_system) {
  if (!region_.manual_flush) {
    write_back_sizes(range);
  }
  for_each_size([&](PagedRegion& region) {
    const Pages pages = pages_of(region, range);
    std::uint64_t frames = 0;
    region.table.for_each_used(pages.first, pages.end, [&](std::uint64_t page) {
      frames += engine_->pager_.discard(region, page, true) ? 1U : 0U;
    });
    if (to_system) {
      engine_->pager_.frames().release_free(*region.arena, frames);
    }
  });
  give_back_page_tables(pages_of(range));
}

// The kernel keeps the page table of any 2 MiB that was once touched, until (Linux 6.14) all of them are dropped in one
// call. Every page of such a stretch is held meanwhile, so that nothing is dropped with it.
void PagedRegionImplementation::give_back_page_tables(Pages pages) noexcept {
  if (region_.page_bytes >= huge_page_bytes) {
    return;
  }
  const std::uint64_t pages_a_table = huge_page_bytes >> region_.page_shift;
  const auto used_nearby = [&](std::uint64_t page) {
    bool used = false;
    for_each_size([&](const PagedRegion& region) {
      const std::uint64_t there = region.page_of(region_.page_address(page));
      used = used || (there < region.table.capacity() && region.table.used_nearby(there));
    });
    return used;
  };
  const auto start = reinterpret_cast<std::uint64_t>(region_.memory);
  const std::uint64_t full_end = start + size() / region_.page_bytes * region_.page_bytes;
  const std::uint64_t end = std::min(start + (pages.end << region_.page_shift), full_end);
  for (std::uint64_t table = round_up(start + (pages.first << region_.page_shift), huge_page_bytes);
       table + huge_page_bytes <= end; table += huge_page_bytes) {
    const std::uint64_t first = (table - start) >> region_.page_shift;
    // What is held counts as used, with what lies near it: beyond an end that is not, all others would be in turn.
    if (!used_nearby(first) || !used_nearby(first + pages_a_table - 1)) {
      continue;
    }
    std::uint64_t held = 0;
    for (; held < pages_a_table; ++held) {
      const PageWord word = region_.table.load(first + held);
      if (word.state() != PageState::absent || !engine_->pager_.hold(region_, first + held, word)) {
        break;
      }
      if (left_to_other_sizes(region_, first + held)) {
        break;
      }
    }
    if (held == pages_a_table) {
      drop_pages(region_.memory + (first << region_.page_shift), huge_page_bytes);
    }
    while (held > 0) {
      engine_->pager_.let_go(region_, first + --held);
    }
  }
}

void PagedRegionImplementation::discard(ByteRange range) {
  for_each_size([&](PagedRegion& region) {
    const Pages pages = pages_of(region, range);
    region.table.for_each_used(pages.first, pages.end, [&](std::uint64_t page) {
      if (const ByteRange whole{page << region.page_shift, region.page_length(page)};
          whole.offset < range.offset || whole.offset + whole.bytes > range.offset + range.bytes) {
        return take_out(region, {page, page + 1});  // A wide page, of which not all is to be dropped.
      }
      engine_->pager_.discard(region, page, false);
      if (region.table.load(page).pins() > 0) {  // Then there is one size.
        make_resident(page, false);
      }
    });
  });
}

// Waits until no background work is under way for the region; `closing` keeps new work away.
void PagedRegionImplementation::quiesce() noexcept {
  for_each_size([&](const PagedRegion& region) { engine_->evictors_.wait_for_flushes(region); });
  for_each_size([](PagedRegion& region) { region.closing.store(true, std::memory_order_release); });
  for_each_size([](PagedRegion& region) { region.wait_for_users(); });
}

void PagedRegionImplementation::unmap() {
  if (taken_down_) {
    return;
  }
  int error = writes_at_end() ? write_back_sizes({0, size()}) : 0;
  if (error == 0 && region_.writable) {
    try {
      error = region_.store->settle();
    } catch (...) {
      error = -EIO;
    }
  }
  if (error != 0) {
    throw Error(-error, "cannot write back to " + region_.store->name() + ": " + std::strerror(-error) +
                            "; the region stays mapped, free the cause and try again");
  }
  take_down();
}

void PagedRegionImplementation::abandon() noexcept {
  if (taken_down_) {
    return;
  }
  if (writes_at_end()) {
    try {
      write_back_sizes({0, size()});
    } catch (...) {  // Out of memory for the list of pages: what is dirty is lost, as documented.
    }
  }
  take_down();
}

void PagedRegionImplementation::take_down() noexcept {
  if (std::exchange(taken_down_, true)) {
    return;
  }
  leave_index();
  quiesce();
  engine_->pinned_bytes_.fetch_sub(region_.pinned_bytes.exchange(0));
  for_each_size([&](PagedRegion& region) { engine_->pager_.retire_pages(region, 0, region.page_count()); });
  // Wakes threads whose faults nobody will answer any more; what they find then raises SIGSEGV.
  forbid(0, round_up(size(), block_bytes));
  memory_ = AddressRange();
  for_each_size([&](PagedRegion& region) { engine_->pager_.release_retired(region, 0, region.page_count()); });
  leave_engine();
}

void PagedRegionImplementation::leave_engine() noexcept {
  // Threads that evicted pages until we took the last of them out may still be about to say so.
  for_each_size([&](PagedRegion& region) {
    region.wait_for_users();
    if (engine_->recorder_ != nullptr) {
      engine_->recorder_->record({TraceKind::region_end, false, region.id, 0});
    }
  });
  if (region_.writable) {
    engine_->pager_.writable_regions.fetch_sub(1);
  }
  if (region_.reads_may_block()) {
    engine_->pager_.blocking_regions.fetch_sub(1);
  }
  reckon_whole_bytes(0);
  if (published_ != nullptr) {
    region_.store->show_tiers(published_->tiers, false);
    engine_->publication_.remove_region(published_);
  }
  engine_->detach(*this);
}

/// Tells the pager what the frames of so many pages would come to.
void PagedRegionImplementation::reckon_whole_bytes(std::uint64_t pages) noexcept {
  const std::uint64_t bytes = pages * FramePool::cost(region_.page_bytes);
  engine_->pager_.whole_bytes.fetch_add(bytes - std::exchange(whole_bytes_, bytes), std::memory_order_relaxed);
}

Statistics PagedRegionImplementation::statistics() const {
  Statistics now = region_.counters->snapshot();
  now.budget_bytes = engine_->budget_bytes();
  return now;
}

}  // namespace tiermap
