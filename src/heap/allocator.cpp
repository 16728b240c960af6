#include "heap/allocator.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tiermap/error.hpp"

namespace tiermap {

Allocator::Allocator(MetadataArea& area, std::uint64_t capacity_bytes, Content content)
    : slabs_(area, capacity_bytes), bins_(slabs_) {
  if (content == Content::nothing) {
    return;
  }
  std::vector<Span*> spans;
  slabs_.load([&](Span& span) { spans.push_back(&span); });
  // A bin's last is its first: the lowest.
  for (std::size_t index = spans.size(); index > 0; --index) {
    bins_.add_loaded(*spans[index - 1]);
  }
}

std::uint64_t Allocator::metadata_bytes(std::uint64_t capacity_bytes) noexcept {
  const std::uint64_t slabs = capacity_bytes >> slab_shift;
  const std::uint64_t end = metadata_bitmap_place(slabs, slabs);
  return (end + heap_page_bytes - 1) / heap_page_bytes * heap_page_bytes;
}

// Free slots of one class may be in other processors' caches, and free slabs in empty spans of other classes.
template <typename Take>
std::uint64_t Allocator::take_or_reclaim(Take&& take) {
  const std::uint64_t taken = take();
  if (taken != no_block) {
    return taken;
  }
  flush_caches();
  return take();
}

std::uint64_t Allocator::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  if (!std::has_single_bit(alignment)) {
    throw OptionError("a block cannot be aligned to " + std::to_string(alignment) + " bytes: choose a power of two");
  }
  const unsigned size_class = size_class_for(bytes, alignment);
  if (size_class == no_size_class) {
    return take_or_reclaim([&] { return slabs_.allocate_run(std::max<std::uint64_t>(bytes, 1), alignment); });
  }
  const std::uint64_t slot = take_or_reclaim([&] { return take_slot(size_class); });
  if (slot == no_block && size_classes[size_class].slabs > 1) {
    return slabs_.allocate_run(bytes, alignment);  // Fewer slabs than a span has may be free in a row.
  }
  if (slot != no_block) {
    make_live(slot);
  }
  return slot;
}

std::uint64_t Allocator::take_slot(unsigned size_class) {
  if (size_class < cached_class_count) {
    if (const SlotCaches::Holding cache = caches_.hold(); cache) {
      std::uint8_t& count = cache->counts[size_class];
      std::uint64_t* const slots = cache->slots[size_class];
      if (count == 0) {
        count = static_cast<std::uint8_t>(bins_.take(size_class, std::span(slots, cache_capacities[size_class] / 2U)));
        // The lowest is to be used first: neighbours in time become neighbours in space.
        std::reverse(slots, slots + count);
      }
      return count == 0 ? no_block : slots[--count];
    }
  }
  std::uint64_t slot = no_block;
  return bins_.take(size_class, std::span(&slot, 1)) == 1 ? slot : no_block;
}

void Allocator::put_slot(unsigned size_class, std::uint64_t offset) {
  if (size_class < cached_class_count) {
    if (const SlotCaches::Holding cache = caches_.hold(); cache) {
      std::uint8_t& count = cache->counts[size_class];
      std::uint64_t* const slots = cache->slots[size_class];
      if (count == cache_capacities[size_class]) {
        // Those that were freed longest ago go: the others' pages are the likelier to be in memory.
        const unsigned gone = count / 2U;
        bins_.put(size_class, std::span(slots, gone));
        std::copy(slots + gone, slots + count, slots);
        count = static_cast<std::uint8_t>(count - gone);
      }
      slots[count++] = offset;
      return;
    }
  }
  bins_.put(size_class, std::span(&offset, 1));
}

Allocator::Place Allocator::place_of(std::uint64_t offset) {
  Span* const span = slabs_.span_of(offset);
  if (span == nullptr) {
    return {};
  }
  const SizeClass& size = span->size();
  const std::uint64_t distance = offset - span->begin();
  const std::uint32_t slot = size.slot_at(distance);
  if (std::uint64_t{slot} * size.bytes != distance || slot >= size.slots) {
    return {};
  }
  return {span, &slabs_.slots_of(*span).words()[slot / 64], 1ULL << (slot % 64)};
}

void Allocator::make_live(std::uint64_t offset) {
  const Place place = place_of(offset);
  place.word->live.fetch_or(place.bit, std::memory_order_seq_cst);
  slabs_.mark_changed(*place.span);
}

void Allocator::deallocate(std::uint64_t offset) {
  const Place place = place_of(offset);
  if (place.span == nullptr) {
    if (!slabs_.free_run(offset)) {
      refuse(offset);
    }
    return;
  }
  // As long as it is live the span stays what it is.
  const unsigned size_class = place.span->size_class.load(std::memory_order_relaxed);
  if ((place.word->live.fetch_and(~place.bit, std::memory_order_seq_cst) & place.bit) == 0) {
    refuse(offset);
  }
  slabs_.mark_changed(*place.span);
  put_slot(size_class, offset);
}

std::uint64_t Allocator::block_bytes(std::uint64_t offset) {
  const Place place = place_of(offset);
  if (place.span != nullptr && (place.word->live.load(std::memory_order_relaxed) & place.bit) != 0) {
    return place.span->size().bytes;
  }
  const std::uint64_t bytes = slabs_.run_bytes(offset);
  if (bytes == 0) {
    refuse(offset);
  }
  return (bytes + slab_bytes - 1) / slab_bytes * slab_bytes;
}

void Allocator::refuse(std::uint64_t offset) {
  std::string why = "is inside a large block: name the block's beginning";
  if (offset >= capacity_bytes()) {
    why = "is beyond the heap's capacity of " + std::to_string(capacity_bytes()) + " bytes: it is of another heap";
  } else if (offset < first_offset) {
    why = "is before the first block: it was never handed out";
  } else if (place_of(offset).span != nullptr) {
    why = "is free: it was freed before, or never handed out; free each block once";
  } else if (const Span* const span = slabs_.span_of(offset); span != nullptr) {
    const SizeClass& size = span->size();
    const std::uint64_t begin = span->begin() + (offset - span->begin()) / size.bytes * size.bytes;
    why = "is inside the block at " + std::to_string(begin) + ": name the block's beginning";
  } else if (slabs_.is_free_slab(offset)) {
    why = "is in free space: it was freed before, or never handed out; free each block once";
  }
  throw OptionError("no block begins at offset " + std::to_string(offset) + ", which " + why);
}

void Allocator::flush_caches() {
  for (std::size_t index = 0; index < caches_.size(); ++index) {
    const SlotCaches::Holding cache = caches_.hold(index);
    for (unsigned size_class = 0; size_class < cached_class_count; ++size_class) {
      if (cache->counts[size_class] != 0) {
        bins_.put(size_class, std::span(cache->slots[size_class], cache->counts[size_class]));
        cache->counts[size_class] = 0;
      }
    }
  }
  bins_.release_empty_spans();
}

void Allocator::save() {
  slabs_.save();
}

void Allocator::sort_out_holes(const FirstData& first_data) {
  const std::lock_guard saving(slabs_.saving_lock());
  slabs_.sort_out_holes(first_data);
}

void Allocator::give_back(GiveBack which, const RangeCallback& given) {
  const std::lock_guard saving(slabs_.saving_lock());
  // In this order: whole slabs seldom share a page with what has to be written first, for which there may be no room
  // before.
  slabs_.give_back_runs(which, given);
  bins_.give_back(which, given);
}

AllocatorStatistics Allocator::statistics() {
  AllocatorStatistics statistics;
  slabs_.describe(statistics);
  return statistics;
}

}  // namespace tiermap
