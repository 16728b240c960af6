#include "heap/slab_map.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <string>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::uint64_t checked_slabs(std::uint64_t capacity_bytes) {
  const std::uint64_t slabs = capacity_bytes >> slab_shift;
  if (slabs < 2 || slabs > most_heap_slabs) {
    throw OptionError("a heap cannot have a capacity of " + std::to_string(capacity_bytes) +
                      " bytes: choose one from 128 KiB to 64 TiB");
  }
  return slabs;
}

PageRange pages_of_slabs(std::uint64_t first, std::uint64_t count) noexcept {
  return {first * pages_per_slab, (first + count) * pages_per_slab};
}

}  // namespace

SlabMap::SlabMap(MetadataArea& area, std::uint64_t capacity_bytes)
    : area_(area),
      slabs_(checked_slabs(capacity_bytes)),
      heads_(slabs_),
      record_flags_(slab_record_count(slabs_)),
      record_checksums_(slab_record_count(slabs_)) {
  free_runs_.give(1, slabs_ - 1);
}

std::uint64_t SlabMap::slabs_of(std::uint64_t head) noexcept {
  return is_large(head) ? ((head >> 1) + slab_bytes - 1) >> slab_shift : span_in(head)->size().slabs;
}

void SlabMap::note_used(std::uint64_t end) noexcept {
  used_slabs_ = std::max(used_slabs_, end);
}

void SlabMap::set_heads(const Span& span, std::uint64_t head) noexcept {
  const std::uint64_t first = span.first_slab.load(std::memory_order_relaxed);
  for (std::uint64_t slab = first; slab < first + span.size().slabs; ++slab) {
    heads_[slab].store(head, std::memory_order_release);
  }
}

Span* SlabMap::make_span(unsigned size_class) {
  const SizeClass& size = size_classes[size_class];
  const std::lock_guard held(lock_);
  const std::uint64_t first = free_runs_.take(size.slabs);
  if (first == FreeRuns::none) {
    return nullptr;
  }
  Span& span = storage_.take_span();
  SlotMap& slots = storage_.take_slots(size);
  span.first_slab.store(static_cast<std::uint32_t>(first), std::memory_order_relaxed);
  span.size_class.store(static_cast<std::uint8_t>(size_class), std::memory_order_relaxed);
  span.available = size.slots;
  span.slots.store(&slots, std::memory_order_release);
  const PageRange pages = pages_of_slabs(first, size.slabs);
  // Pages that were free and not given back are so still: the span has to be looked at for them.
  for (PageRanges* const ranges : {&unknown_, &unreported_}) {
    ranges->remove(pages, [&](PageRange was_used) {
      set_pages(slots.touched, was_used.begin - pages.begin, was_used.end - 1 - pages.begin);
      mark_freed_into(span);
    });
  }
  freed_.remove(pages, [&](PageRange was_used) {
    set_pages(slots.touched, was_used.begin - pages.begin, was_used.end - 1 - pages.begin);
    set_pages(slots.saved_live, was_used.begin - pages.begin, was_used.end - 1 - pages.begin);
    mark_freed_into(span);
  });
  note_used(first + size.slabs);
  set_heads(span, reinterpret_cast<std::uint64_t>(&span));
  mark_changed(span);
  return &span;
}

void SlabMap::release_span(Span& span) {
  const SizeClass& size = span.size();
  SlotMap& slots = slots_of(span);
  const std::uint64_t first = span.first_slab.load(std::memory_order_relaxed);
  const std::uint64_t first_page = first * pages_per_slab;
  const std::lock_guard held(lock_);
  set_heads(span, 0);
  for (std::uint64_t page = 0; page < span.pages();) {
    const std::uint64_t begin = page;
    const bool touched = has_page(slots.touched, begin);
    const bool saved = has_page(slots.saved_live, begin);
    do {
      ++page;
    } while (page < span.pages() && has_page(slots.touched, page) == touched &&
             has_page(slots.saved_live, page) == saved);
    if (touched) {
      (saved ? freed_ : unreported_).add({first_page + begin, first_page + page});
    }
  }
  free_runs_.give(first, size.slabs);
  flag_record(first, changed_flag);
  storage_.give_slots(slots, size);
  storage_.give_span(span);
}

std::uint64_t SlabMap::allocate_run(std::uint64_t bytes, std::uint64_t alignment) {
  if (bytes > capacity_bytes()) {
    return 0;
  }
  const std::uint64_t count = (bytes + slab_bytes - 1) >> slab_shift;
  const std::lock_guard held(lock_);
  const std::uint64_t first = free_runs_.take(count, std::max(alignment, slab_bytes) >> slab_shift);
  if (first == FreeRuns::none) {
    return 0;
  }
  unknown_.remove(pages_of_slabs(first, count));
  unreported_.remove(pages_of_slabs(first, count));
  freed_.remove(pages_of_slabs(first, count));
  note_used(first + count);
  heads_[first].store(bytes << 1 | 1, std::memory_order_release);
  flag_record(first, changed_flag);
  return first << slab_shift;
}

bool SlabMap::free_run(std::uint64_t offset) {
  const std::lock_guard held(lock_);
  if (run_bytes(offset) == 0) {
    return false;
  }
  const std::uint64_t first = offset >> slab_shift;
  const std::uint64_t count = slabs_of(head(first));
  heads_[first].store(0, std::memory_order_release);
  // The block may be in the saved state; if it came later, these pages only go back one save later than they could.
  freed_.add(pages_of_slabs(first, count));
  free_runs_.give(first, count);
  flag_record(first, changed_flag);
  return true;
}

std::uint64_t SlabMap::run_bytes(std::uint64_t offset) const noexcept {
  if (offset % slab_bytes != 0 || offset >= capacity_bytes()) {
    return 0;
  }
  const std::uint64_t found = head(offset >> slab_shift);
  return is_large(found) ? found >> 1 : 0;
}

bool SlabMap::is_free_slab(std::uint64_t offset) {
  const std::lock_guard held(lock_);
  return free_runs_.end_of_run(offset >> slab_shift) != FreeRuns::none;
}

void SlabMap::sort_out_holes(const FirstData& first_data) {
  while (true) {
    const std::lock_guard held(lock_);
    if (unknown_.empty()) {
      return;
    }
    const PageRange range = unknown_.first();
    const std::uint64_t end = range.end * heap_page_bytes;
    for (std::uint64_t at = range.begin * heap_page_bytes; at < end;) {
      const auto [data, hole] = first_data(at, end);
      const PageRange found{data / heap_page_bytes, (hole + heap_page_bytes - 1) / heap_page_bytes};
      if (found.begin < found.end) {
        unreported_.add(found);
      }
      at = std::max(hole, at + heap_page_bytes);
    }
    unknown_.remove(range);
  }
}

void SlabMap::give_back_runs(GiveBack which, const RangeCallback& given) {
  while (true) {
    // Not all under one lock: others may want space meanwhile.
    const std::lock_guard held(lock_);
    unreported_.add_all(unknown_);
    PageRanges& pages = unreported_.empty() && which == GiveBack::free_now ? freed_ : unreported_;
    if (pages.empty()) {
      return;
    }
    const PageRange range = pages.first();
    given(range.begin * heap_page_bytes, (range.end - range.begin) * heap_page_bytes);
    pages.remove(range);
  }
}

std::vector<Span*> SlabMap::take_freed_into() {
  std::vector<Span*> spans;
  const std::lock_guard held(lock_);
  for (std::uint64_t record = 0; record < slab_record_count(used_slabs_); ++record) {
    if ((record_flags_[record].load(std::memory_order_relaxed) & freed_flag) == 0) {
      continue;
    }
    record_flags_[record].fetch_and(static_cast<std::uint8_t>(~freed_flag), std::memory_order_seq_cst);
    const std::uint64_t first = record * slabs_per_record;
    for (std::uint64_t slab = first; slab < std::min(first + slabs_per_record, used_slabs_); ++slab) {
      Span* const span = span_in(head(slab));
      if (span != nullptr && span->first_slab.load(std::memory_order_relaxed) == slab) {
        spans.push_back(span);
      }
    }
  }
  return spans;
}

std::uint64_t SlabMap::used_end_bytes() {
  const std::lock_guard held(lock_);
  return used_slabs_ << slab_shift;
}

void SlabMap::describe(AllocatorStatistics& statistics) {
  const std::lock_guard held(lock_);
  statistics = {};
  statistics.capacity_bytes = capacity_bytes();
  statistics.free_bytes = free_runs_.free_slabs() << slab_shift;
  statistics.largest_free_run_bytes = free_runs_.longest() << slab_shift;
  statistics.used_end_bytes = used_slabs_ << slab_shift;
  walk([&](std::uint64_t, std::uint64_t found) {
    if (is_large(found)) {
      ++statistics.large_blocks;
      statistics.large_bytes += found >> 1;
      statistics.large_run_bytes += slabs_of(found) << slab_shift;
      return;
    }
    const Span& span = *span_in(found);
    const SizeClass& size = span.size();
    std::uint64_t live = span.saved_live;
    if (SlotMap* const slots = span.slots.load(std::memory_order_acquire); slots != nullptr) {
      live = 0;
      for (unsigned word = 0; word < size.words(); ++word) {
        live += static_cast<unsigned>(std::popcount(slots->words()[word].live.load(std::memory_order_relaxed)));
      }
    }
    AllocatorStatistics::OfClass& of_class = statistics.classes[span.size_class.load(std::memory_order_relaxed)];
    ++of_class.spans;
    of_class.live_blocks += live;
    of_class.free_slots += size.slots - live;
    statistics.live_blocks += live;
    statistics.live_bytes += live * size.bytes;
    statistics.free_slot_bytes += (size.slots - live) * size.bytes;
    statistics.span_bytes += std::uint64_t{size.slabs} << slab_shift;
  });
  statistics.live_blocks += statistics.large_blocks;
  statistics.live_bytes += statistics.large_bytes;
}

void SlabMap::for_each_block(const RangeCallback& block) {
  const std::lock_guard held(lock_);
  walk([&](std::uint64_t slab, std::uint64_t found) {
    if (is_large(found)) {
      block(slab << slab_shift, slabs_of(found) << slab_shift);
      return;
    }
    Span& span = *span_in(found);
    const SizeClass& size = span.size();
    SlotMap& slots = slots_of(span);
    for (unsigned word = 0; word < size.words(); ++word) {
      std::uint64_t live = slots.words()[word].live.load(std::memory_order_acquire);
      for (; live != 0; live &= live - 1) {
        const std::uint64_t slot = word * 64ULL + static_cast<unsigned>(std::countr_zero(live));
        block(span.begin() + slot * size.bytes, size.bytes);
      }
    }
  });
}

}  // namespace tiermap
