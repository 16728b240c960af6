#include "heap/span.hpp"

#include <mutex>
#include <new>

namespace tiermap {
namespace {

constexpr std::size_t slot_map_chunk_bytes = 256 << 10;

}  // namespace

Span& SpanStorage::take_span() {
  const std::lock_guard held(lock_);
  if (free_spans_.empty()) {
    Span& made = spans_.emplace_back();
    // Room to give them all back, so that this cannot fail.
    if (free_spans_.capacity() < spans_.size()) {
      free_spans_.reserve(2 * spans_.size());
    }
    return made;
  }
  Span& span = *free_spans_.back();
  free_spans_.pop_back();
  span.freed_into = span.listed = false;
  span.available = span.first_word = span.saved_live = 0;
  span.previous = span.next = nullptr;
  span.saved_value = 0;
  span.changed.store(false, std::memory_order_relaxed);
  // Its old slot map stays until the new owner sets another: null would mean one that has to be read.
  return span;
}

void SpanStorage::give_span(Span& span) noexcept {
  const std::lock_guard held(lock_);
  free_spans_.push_back(&span);
}

std::byte* SpanStorage::carve(std::size_t bytes) {
  if (chunk_left_ < bytes) {
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(slot_map_chunk_bytes));
    chunk_left_ = slot_map_chunk_bytes;
  }
  std::byte* const place = chunks_.back().get() + (slot_map_chunk_bytes - chunk_left_);
  chunk_left_ -= bytes;
  return place;
}

SlotMap& SpanStorage::take_slots(const SizeClass& size) {
  const unsigned pool = pool_of(size);
  const unsigned words = 1U << pool;
  SlotMap* slots = nullptr;
  bool fresh = false;
  {
    const std::lock_guard held(lock_);
    if (!free_slots_[pool].empty()) {
      slots = free_slots_[pool].back();
      free_slots_[pool].pop_back();
    } else {
      for (auto& pooled : free_slots_) {
        if (pooled.capacity() <= slot_maps_) {
          pooled.reserve(2 * slot_maps_ + 16);
        }
      }
      slots = new (carve(sizeof(SlotMap) + words * sizeof(SlotWord))) SlotMap;
      ++slot_maps_;
      fresh = true;
    }
  }
  slots->touched = {};
  slots->saved_live = {};
  for (unsigned word = 0; word < words; ++word) {
    SlotWord& made = slots->words()[word];
    if (fresh) {
      new (&made) SlotWord;
    }
    made.live.store(0, std::memory_order_relaxed);
    made.available = word < size.words() ? slots_of_word(size, word) : 0;
  }
  return *slots;
}

void SpanStorage::give_slots(SlotMap& slots, const SizeClass& size) noexcept {
  const std::lock_guard held(lock_);
  free_slots_[pool_of(size)].push_back(&slots);
}

}  // namespace tiermap
