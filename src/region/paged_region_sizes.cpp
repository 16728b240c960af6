// A region whose page size follows the access: the same bytes in pages of other sizes, and how that ends.
#include <bit>
#include <bitset>

#include "platform/drop_pages.hpp"
#include "platform/page_sizes.hpp"
#include "region/paged_region_implementation.hpp"
#include "region/userfaultfd_engine.hpp"

namespace tiermap {

namespace {

/// The small pages of a large one, which PageSizeChoice remembers in as many bits.
constexpr std::uint64_t most_pages_taken_out = 64;

}  // namespace

// The same bytes in pages of another size. Streams are followed in large pages alone.
std::unique_ptr<PagedRegion> PagedRegionImplementation::in_pages_of(std::uint64_t page_bytes) {
  auto made = std::make_unique<PagedRegion>();
  made->store = region_.store;
  made->store_offset = region_.store_offset;
  made->page_bytes = page_bytes;
  made->page_shift = static_cast<unsigned>(std::countr_zero(page_bytes));
  made->writable = region_.writable;
  made->store_is_direct = region_.store_is_direct;
  made->reads_in_signal_handler = region_.reads_in_signal_handler;
  made->memory = region_.memory;
  made->table = table_of(page_bytes);
  made->streams = region_.streams;
  return made;
}

std::uint64_t PagedRegionImplementation::pages_in_memory(ByteRange range) const noexcept {
  const Pages pages = pages_of(range);
  std::uint64_t there = 0;
  for (std::uint64_t page = pages.first; page < pages.end; ++page) {
    const PageState state = region_.table.load(page).state();
    there += state != PageState::absent && state != PageState::filling && state != PageState::failed ? 1U : 0U;
  }
  return there;
}

void PagedRegionImplementation::add_sizes() {
  small_ = in_pages_of(PageSizeChoice::small_page_bytes);
  wide_ = in_pages_of(PageSizeChoice::wide_page_bytes);
  choice_ = std::make_unique<PageSizeChoice>(region_, *small_, *wide_);
  set_length(region_.length.load());
}

// The region's own comes last: by that an address is found to be in it, and then which size serves it.
void PagedRegionImplementation::set_length(std::uint64_t length) noexcept {
  if (choice_ != nullptr) {
    // Where there is no room for the words of more small pages the choice has ended.
    small_->length.store(std::min(length, small_->table.capacity() << small_->page_shift), std::memory_order_release);
    wide_->length.store(length / wide_->page_bytes * wide_->page_bytes, std::memory_order_release);
  }
  region_.length.store(length, std::memory_order_release);
}

// Where the page size follows the access, what is wanted of one large page comes in small ones if those serve it.
PagedRegion& PagedRegionImplementation::prefetched_in(ByteRange range) noexcept {
  const std::uint64_t page = range.offset >> region_.page_shift;
  const bool within_one = (range.offset + range.bytes - 1) >> region_.page_shift == page;
  const bool small = choice_ != nullptr && within_one && !choice_->ended() &&
                     region_.table.load(page).state() == PageState::absent &&
                     (!choice_->prefers_large(page, engine_->pager_.has_room()) || choice_->count_small(page) > 0);
  return small ? *small_ : region_;
}

// Of a page that was absent, and is held now: whether pages of another size are where it lies; then it is let go of.
// All say first what they claim, and look then: whoever claims a page of another size from here on sees ours.
bool PagedRegionImplementation::left_to_other_sizes(PagedRegion& region, std::uint64_t page) noexcept {
  const bool is_left = choice_ != nullptr && choice_->is_in_other_size(region, page);
  if (is_left) {
    engine_->pager_.let_go(region, page);
  }
  return is_left;
}

// Takes pages of one large page, or a wide one, out, written back: all are held before one is let go.
void PagedRegionImplementation::take_out(PagedRegion& region, Pages pages) {
  int result = 0;
  {
    const std::lock_guard locked(write_mutex_);
    result = take_out_locked(region, pages);
  }
  if (result < 0) {
    refuse_write_back(result);
  }
}

// The same with write_mutex_ held. Returns 0 or a negative errno value.
int PagedRegionImplementation::take_out_locked(PagedRegion& region, Pages pages) {
  std::bitset<most_pages_taken_out> held;
  int result = 0;
  for (std::uint64_t page = pages.first; page < pages.end && result >= 0; ++page) {
    result = hold_page_locked(region, page, Holding::of_chosen_size);
    held[page - pages.first] = result == 0;
  }
  for (std::uint64_t page = pages.first; page < pages.end; ++page) {
    if (held[page - pages.first]) {
      drop_pages(region.page_address(page), region.page_mapped(page));
      engine_->pager_.free_held(region, page);
      engine_->pager_.let_go(region, page);
    }
  }
  return std::min(result, 0);
}

// Takes out what lies in other sizes where a page lies that is held, for which nobody claims any there from now on.
int PagedRegionImplementation::take_out_around_locked(const PagedRegion& held_in, std::uint64_t page) {
  int result = 0;
  if (choice_ == nullptr || !choice_->is_in_other_size(held_in, page)) {
    return result;
  }
  for_each_size([&](PagedRegion& region) {
    if (&region != &held_in && result == 0) {
      result = take_out_locked(region, pages_of(region, {page << held_in.page_shift, held_in.page_length(page)}));
    }
  });
  return result;
}

// Ends the choice between page sizes: pins, shorter lengths, and long changes of what lies below want one.
void PagedRegionImplementation::use_large_pages() {
  if (choice_ == nullptr || all_large_) {
    return;
  }
  choice_->end();
  if (region_.writable) {
    write_back(ByteRange{0, size()});
  }
  take_out_other_sizes();
  choice_->close();
  take_out_other_sizes();
  all_large_ = true;
}

void PagedRegionImplementation::take_out_other_sizes() {
  // A small page that came while its neighbours were taken out is seen by the next look.
  for (bool any = true; any;) {
    any = false;
    wide_->table.for_each_used(0, wide_->page_count(), [&](std::uint64_t page) {
      any = true;
      take_out(*wide_, {page, page + 1});
    });
    small_->table.for_each_used(0, small_->page_count(), [&](std::uint64_t page) {
      any = true;
      const std::uint64_t large_page = choice_->large_page_of(*small_, page);
      take_out(*small_, pages_of(*small_, {large_page << region_.page_shift, region_.page_length(large_page)}));
    });
  }
}

}  // namespace tiermap
