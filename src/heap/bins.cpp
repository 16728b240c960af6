#include "heap/bins.hpp"

#include <algorithm>
#include <bit>
#include <mutex>

namespace tiermap {
namespace {

// Takes slots of one span, from the lowest on; returns how many.
unsigned take_slots(Span& span, SlotMap& slots, std::span<std::uint64_t> taken) noexcept {
  const SizeClass& size = span.size();
  const std::uint64_t begin = span.begin();
  unsigned count = 0;
  unsigned word = span.first_word;
  for (; word < size.words() && count < taken.size(); ++word) {
    std::uint64_t available = slots.words()[word].available;
    for (; available != 0 && count < taken.size(); available &= available - 1) {
      const std::uint64_t slot = word * 64ULL + static_cast<unsigned>(std::countr_zero(available));
      const SlotPages pages = pages_of_slot(size, slot);
      set_pages(slots.touched, pages.first, pages.last);
      taken[count++] = begin + slot * size.bytes;
    }
    slots.words()[word].available = available;
    if (available != 0) {
      break;
    }
  }
  span.first_word = word;
  span.available -= count;
  return count;
}

// Whether no slot that reaches into this page is live or cached.
bool is_free_page(const SizeClass& size, SlotMap& slots, std::uint64_t page) noexcept {
  const std::uint64_t first = page * heap_page_bytes / size.bytes;
  const std::uint64_t end = std::min<std::uint64_t>(size.slots, ((page + 1) * heap_page_bytes - 1) / size.bytes + 1);
  for (std::uint64_t slot = first; slot < end;) {
    const std::uint64_t in_word = std::min<std::uint64_t>(end - slot, 64 - slot % 64);
    const std::uint64_t mask = (~std::uint64_t{0} >> (64 - in_word)) << (slot % 64);
    if ((slots.words()[slot / 64].available & mask) != mask) {
      return false;
    }
    slot += in_word;
  }
  return true;
}

}  // namespace

void Bins::link(Bin& bin, Span& span) noexcept {
  span.listed = true;
  span.previous = nullptr;
  span.next = bin.first;
  if (bin.first != nullptr) {
    bin.first->previous = &span;
  }
  bin.first = &span;
}

void Bins::unlink(Bin& bin, Span& span) noexcept {
  span.listed = false;
  (span.previous != nullptr ? span.previous->next : bin.first) = span.next;
  if (span.next != nullptr) {
    span.next->previous = span.previous;
  }
}

// The next span with available slots. One that has to be read or made only if there are no slots yet: both may fail.
Span* Bins::usable_span(Bin& bin, unsigned size_class, bool none_yet) {
  Span* const span = bin.first;
  if (span == nullptr) {
    Span* const made = none_yet ? slabs_.make_span(size_class) : nullptr;
    if (made != nullptr) {
      link(bin, *made);
    }
    return made;
  }
  if (span->slots.load(std::memory_order_acquire) != nullptr) {
    return span;
  }
  if (!none_yet) {
    return nullptr;
  }
  try {
    slabs_.slots_of(*span);
  } catch (...) {
    unlink(bin, *span);
    throw;
  }
  return span;
}

unsigned Bins::take(unsigned size_class, std::span<std::uint64_t> slots) {
  Bin& bin = bins_[size_class];
  const std::lock_guard held(bin.lock);
  unsigned count = 0;
  while (count < slots.size()) {
    Span* const span = usable_span(bin, size_class, count == 0);
    if (span == nullptr) {
      break;
    }
    count += take_slots(*span, slabs_.slots_of(*span), slots.subspan(count));
    if (span->available == 0) {
      unlink(bin, *span);
    }
  }
  return count;
}

void Bins::put_one(Bin& bin, const SizeClass& size, std::uint64_t offset) {
  Span& span = *slabs_.span_of(offset);
  SlotMap& slots = slabs_.slots_of(span);
  const std::uint32_t slot = size.slot_at(offset - span.begin());
  slots.words()[slot / 64].available |= 1ULL << (slot % 64);
  span.first_word = std::min(span.first_word, slot / 64);
  slabs_.mark_freed_into(span);
  if (++span.available == 1) {
    link(bin, span);
  }
  if (span.available == size.slots && (bin.first != &span || span.next != nullptr)) {
    if (span.listed) {
      unlink(bin, span);
    }
    slabs_.release_span(span);
  }
}

void Bins::put(unsigned size_class, std::span<const std::uint64_t> slots) {
  Bin& bin = bins_[size_class];
  const std::lock_guard held(bin.lock);
  for (const std::uint64_t offset : slots) {
    put_one(bin, size_classes[size_class], offset);
  }
}

void Bins::add_loaded(Span& span) {
  if (span.available != 0) {
    link(bins_[span.size_class.load(std::memory_order_relaxed)], span);
  }
}

void Bins::release_empty_spans() {
  for (Bin& bin : bins_) {
    const std::lock_guard held(bin.lock);
    for (Span* span = bin.first; span != nullptr;) {
      Span* const next = span->next;
      if (span->available == span->size().slots) {
        unlink(bin, *span);
        slabs_.release_span(*span);
      }
      span = next;
    }
  }
}

void Bins::give_back(GiveBack which, const RangeCallback& given) {
  const std::vector<Span*> spans = slabs_.take_freed_into();
  for (std::size_t index = 0; index < spans.size(); ++index) {
    try {
      give_back_pages(*spans[index], which, given);
    } catch (...) {
      // These were not looked at: next time.
      for (; index < spans.size(); ++index) {
        slabs_.flag_freed_into(*spans[index]);
      }
      throw;
    }
  }
}

void Bins::give_back_pages(Span& span, GiveBack which, const RangeCallback& given) {
  Bin& bin = bins_[span.size_class.load(std::memory_order_relaxed)];
  const std::lock_guard held(bin.lock);
  // It may have been released since, and be another now: that one's turn comes next time. In this order: what is in the
  // table has the class that it was put there with, and if that is this bin's it stays.
  if (slabs_.span_of(span.begin()) != &span || &bins_[span.size_class.load(std::memory_order_relaxed)] != &bin ||
      !span.freed_into) {
    return;
  }
  const SizeClass& size = span.size();
  SlotMap& slots = slabs_.slots_of(span);
  bool some_kept = false;
  const auto goes = [&](std::uint64_t page) {
    if (!has_page(slots.touched, page) || !is_free_page(size, slots, page)) {
      return false;
    }
    const bool kept = which == GiveBack::free_when_saved && has_page(slots.saved_live, page);
    some_kept = some_kept || kept;
    return !kept;
  };
  for (std::uint64_t page = 0; page < span.pages(); ++page) {
    const std::uint64_t first = page;
    while (page < span.pages() && goes(page)) {
      ++page;
    }
    if (page > first) {
      given(span.begin() + first * heap_page_bytes, (page - first) * heap_page_bytes);
      clear_pages(slots.touched, first, page - 1);
    }
  }
  span.freed_into = some_kept;
  if (some_kept) {
    slabs_.flag_freed_into(span);
  }
}

}  // namespace tiermap
