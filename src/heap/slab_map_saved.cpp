// How a slab map is saved, and loaded again.
#include <algorithm>
#include <array>
#include <cerrno>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "heap/slab_map.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

// Slab records are read so many at once.
constexpr std::uint64_t records_per_read = 64;

void copy_live_bits(SlotMap& slots, std::span<std::uint64_t> words) noexcept {
  for (std::size_t word = 0; word < words.size(); ++word) {
    words[word] = slots.words()[word].live.load(std::memory_order_seq_cst);
  }
}

// Adds the pages of all slots whose bits are set.
void add_pages(const SizeClass& size, std::span<const std::uint64_t> words, PageMask& pages) noexcept {
  for (std::size_t word = 0; word < words.size(); ++word) {
    for (std::uint64_t bits = words[word]; bits != 0; bits &= bits - 1) {
      const SlotPages reached = pages_of_slot(size, word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
      set_pages(pages, reached.first, reached.last);
    }
  }
}

}  // namespace

SlotMap& SlabMap::load_slots(Span& span) {
  const std::lock_guard held(loading_lock_);
  if (SlotMap* const loaded = span.slots.load(std::memory_order_acquire); loaded != nullptr) {
    return *loaded;
  }
  const SizeClass& size = span.size();
  std::array<std::uint64_t, most_span_slots / 64> bits;
  const std::span words = std::span(bits).first(size.words());
  read_live_bits(span, words);
  SlotMap& slots = storage_.take_slots(size);
  for (unsigned word = 0; word < size.words(); ++word) {
    slots.words()[word].live.store(words[word], std::memory_order_relaxed);
    slots.words()[word].available &= ~words[word];
  }
  add_pages(size, words, slots.saved_live);
  // What its free pages hold is not known.
  set_pages(slots.touched, 0, span.pages() - 1);
  span.slots.store(&slots, std::memory_order_release);
  return slots;
}

// Of a span whose slots were never looked at: what is saved of it does not change.
void SlabMap::read_live_bits(const Span& span, std::span<std::uint64_t> words) {
  if (has_inline_bits(span.size())) {
    words[0] = span.saved_value;
    return;
  }
  std::array<std::byte, most_bitmap_bytes> bytes;
  const std::span bitmap = std::span(bytes).first(bitmap_bytes(span.size()));
  const std::uint64_t slab = span.first_slab.load(std::memory_order_relaxed);
  area_.read_record(metadata_bitmap_place(slabs_, slab), bitmap);
  decode_bitmap(slab,
                {SlabContent::span, span.size_class.load(std::memory_order_relaxed), span.saved_live, span.saved_value},
                bitmap, words);
}

void SlabMap::save() {
  const std::lock_guard saving(saving_lock_);
  // No span comes or goes meanwhile; blocks do, and each is saved as it was before or after.
  const std::lock_guard held(lock_);
  bool changed = !header_saved_;
  for (std::uint64_t record = 0; record < slab_record_count(used_slabs_); ++record) {
    if ((record_flags_[record].load(std::memory_order_relaxed) & changed_flag) != 0) {
      record_flags_[record].fetch_and(static_cast<std::uint8_t>(~changed_flag), std::memory_order_seq_cst);
      header_saved_ = false;
      changed = true;
      try {
        save_record(record);
      } catch (...) {
        distrust_record(record);
        throw;
      }
    }
  }
  if (changed) {
    area_.write_record(0, encode_metadata_header({slabs_, used_slabs_, record_sum_}));
    header_saved_ = true;
  }
  unreported_.add_all(freed_);
}

void SlabMap::save_record(std::uint64_t record) {
  SavedSlabs saved;
  const std::uint64_t first = record * slabs_per_record;
  for (std::uint64_t index = 0; index < slabs_per_record; ++index) {
    saved[index] = first + index < used_slabs_ ? saved_slab(first + index) : SavedSlab{};
  }
  std::array<std::byte, slab_record_bytes> bytes;
  const std::uint64_t checksum = encode_slab_record(record, saved, bytes);
  area_.write_record(slab_record_place(record), bytes);
  record_sum_ += checksum - record_checksums_[record];
  record_checksums_[record] = checksum;
}

SavedSlab SlabMap::saved_slab(std::uint64_t slab) {
  const std::uint64_t found = head(slab);
  if (is_large(found)) {
    return {SlabContent::large_block, 0, 0, found >> 1};
  }
  Span* const span = span_in(found);
  if (span == nullptr || span->first_slab.load(std::memory_order_relaxed) != slab) {
    return {};
  }
  if (span->changed.exchange(false, std::memory_order_seq_cst)) {
    save_span(*span);
  }
  // One without blocks is free space, whatever a bin keeps it for.
  return span->saved_live == 0 ? SavedSlab{}
                               : SavedSlab{SlabContent::span, span->size_class.load(std::memory_order_relaxed),
                                           span->saved_live, span->saved_value};
}

void SlabMap::save_span(Span& span) {
  const SizeClass& size = span.size();
  SlotMap& slots = slots_of(span);
  std::array<std::uint64_t, most_span_slots / 64> bits;
  const std::span words = std::span(bits).first(size.words());
  copy_live_bits(slots, words);
  std::uint32_t live = 0;
  for (const std::uint64_t word : words) {
    live += static_cast<std::uint32_t>(std::popcount(word));
  }
  std::uint64_t value = words[0];
  if (!has_inline_bits(size) && live != 0) {
    std::array<std::byte, most_bitmap_bytes> bytes;
    const std::span bitmap = std::span(bytes).first(bitmap_bytes(size));
    const std::uint64_t slab = span.first_slab.load(std::memory_order_relaxed);
    value = encode_bitmap(slab, words, bitmap);
    area_.write_record(metadata_bitmap_place(slabs_, slab), bitmap);
  }
  span.saved_live = live;
  span.saved_value = value;
  slots.saved_live = {};
  add_pages(size, words, slots.saved_live);
}

// After a write that failed: all of it is written again next time.
void SlabMap::distrust_record(std::uint64_t record) noexcept {
  const std::uint64_t first = record * slabs_per_record;
  for (std::uint64_t slab = first; slab < std::min(first + slabs_per_record, used_slabs_); ++slab) {
    Span* const span = span_in(head(slab));
    if (span != nullptr && span->slots.load(std::memory_order_relaxed) != nullptr) {
      span->changed.store(true, std::memory_order_seq_cst);
    }
  }
  flag_record(first, changed_flag);
}

void SlabMap::load(const std::function<void(Span&)>& found) {
  std::array<std::byte, metadata_header_bytes> header_bytes;
  area_.read_record(0, header_bytes);
  const MetadataHeader header = decode_metadata_header(header_bytes);
  if (header.slabs != slabs_) {
    refuse_heap_metadata("the header at byte 0 is of a heap with a capacity of " +
                         std::to_string(header.slabs << slab_shift) + " bytes, and this one has " +
                         std::to_string(capacity_bytes()));
  }
  const std::lock_guard saving(saving_lock_);
  const std::lock_guard held(lock_);
  used_slabs_ = std::max<std::uint64_t>(header.used_slabs, 1);
  free_runs_ = FreeRuns{};
  const std::uint64_t records = slab_record_count(used_slabs_);
  std::vector<std::byte> bytes(std::min(records_per_read, records) * slab_record_bytes);
  std::uint64_t read_begin = 0;
  std::uint64_t read_end = 0;
  SavedSlabs saved;
  for (std::uint64_t record = 0; record < records; ++record) {
    if ((record + 1) * slabs_per_record <= loaded_slabs_) {
      continue;  // Inside a large block there is nothing to read.
    }
    if (record >= read_end) {
      read_begin = record;
      read_end = std::min(record + records_per_read, records);
      area_.read_record(slab_record_place(record), std::span(bytes).first((read_end - read_begin) * slab_record_bytes));
    }
    const std::uint64_t within = (record - read_begin) * slab_record_bytes;
    const std::uint64_t checksum =
        decode_slab_record(record, std::span(bytes).subspan(within, slab_record_bytes), saved);
    record_checksums_[record] = checksum;
    record_sum_ += checksum;
    load_record(record, saved, found);
  }
  if (record_sum_ != header.record_sum) {
    refuse_heap_metadata("the slab records are not all of one save: one was lost, or is of another time");
  }
  if (loaded_slabs_ < used_slabs_) {
    unknown_.add({loaded_slabs_ * pages_per_slab, used_slabs_ * pages_per_slab});
  }
  if (loaded_slabs_ < slabs_) {
    free_runs_.give(loaded_slabs_, slabs_ - loaded_slabs_);
  }
  header_saved_ = true;
}

void SlabMap::load_record(std::uint64_t record, const SavedSlabs& saved, const std::function<void(Span&)>& found) {
  for (std::uint64_t index = 0; index < slabs_per_record; ++index) {
    if (saved[index].content == SlabContent::nothing) {
      continue;
    }
    const std::uint64_t slab = record * slabs_per_record + index;
    if (slab < loaded_slabs_ || saved[index].length() > used_slabs_ || slab > used_slabs_ - saved[index].length()) {
      refuse_heap_metadata("slab record " + std::to_string(record) + " at byte " +
                           std::to_string(slab_record_place(record)) + " is damaged: what begins at slab " +
                           std::to_string(slab) + " overlaps another or reaches beyond the end");
    }
    place(slab, saved[index], found);
  }
}

void SlabMap::place(std::uint64_t slab, const SavedSlab& saved, const std::function<void(Span&)>& found) {
  if (slab > loaded_slabs_) {
    free_runs_.give(loaded_slabs_, slab - loaded_slabs_);
    // Free, and not known to have been given back.
    unknown_.add({loaded_slabs_ * pages_per_slab, slab * pages_per_slab});
  }
  loaded_slabs_ = slab + saved.length();
  if (saved.content == SlabContent::large_block) {
    heads_[slab].store(saved.value << 1 | 1, std::memory_order_release);
    return;
  }
  const SizeClass& size = size_classes[saved.size_class];
  Span& span = storage_.take_span();
  span.first_slab.store(static_cast<std::uint32_t>(slab), std::memory_order_relaxed);
  span.size_class.store(saved.size_class, std::memory_order_relaxed);
  span.available = size.slots - saved.live;
  span.saved_live = saved.live;
  span.saved_value = saved.value;
  set_heads(span, reinterpret_cast<std::uint64_t>(&span));
  found(span);
}

}  // namespace tiermap
