#include "heap/metadata_walk.hpp"

#include <algorithm>
#include <array>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t records_at_once = 64;

/// What a record that was refused has.
std::string reason(const StoreError& error) {
  const auto* const metadata = dynamic_cast<const HeapMetadataError*>(&error);
  return metadata != nullptr ? metadata->finding() : error.what();
}

std::uint64_t entry_place(std::uint64_t slab) noexcept {
  return slab_record_place(slab / slabs_per_record) + 16 + slab % slabs_per_record * 16;
}

}  // namespace

void MetadataWalk::run() {
  read_header();
  end_ = !header_ || whole_ ? slabs_ : std::max<std::uint64_t>(header_->used_slabs, 1);
  const std::uint64_t records = slab_record_count(end_);
  for (std::uint64_t record = 0; record < records;) {
    if ((record + 1) * slabs_per_record <= next_) {
      record = next_ / slabs_per_record;  // Inside a large block there is nothing to read.
      continue;
    }
    const std::uint64_t count = std::min(records_at_once, records - record);
    read_records(record, count);
    record += count;
    visitor_.passed(std::min(record * slabs_per_record, end_), end_);
  }
  finish();
}

void MetadataWalk::read_header() {
  std::array<std::byte, metadata_header_bytes> bytes;
  try {
    area_.read_record(0, bytes);
    header_ = decode_metadata_header(bytes);
  } catch (const StoreError& error) {
    visitor_.damage(0, reason(error));
    return;
  }
  if (header_->slabs != slabs_) {
    visitor_.damage(0, "the header at byte 0 of the metadata is of a heap with a capacity of " +
                           std::to_string(header_->slabs * slab_bytes) + " bytes, and this one has " +
                           std::to_string(slabs_ * slab_bytes));
    header_.reset();
  }
}

void MetadataWalk::read_records(std::uint64_t first, std::uint64_t count) {
  records_.resize(count * slab_record_bytes);
  bool together = true;
  try {
    area_.read_record(slab_record_place(first), records_);
  } catch (const StoreError&) {
    together = false;  // One by one, to see which.
  }
  for (std::uint64_t index = 0; index < count; ++index) {
    if ((first + index + 1) * slabs_per_record <= next_) {
      continue;
    }
    const std::span bytes = std::span(records_).subspan(index * slab_record_bytes, slab_record_bytes);
    try {
      if (!together) {
        area_.read_record(slab_record_place(first + index), bytes);
      }
    } catch (const StoreError& error) {
      lose_record(first + index, error.what());
      continue;
    }
    visit_record(first + index, bytes);
  }
}

void MetadataWalk::visit_record(std::uint64_t record, std::span<const std::byte> bytes) {
  SavedSlabs entries;
  try {
    sum_ += decode_slab_record(record, bytes, entries);
  } catch (const StoreError& error) {
    lose_record(record, reason(error));
    return;
  }
  visit_entries(record, entries);
}

/// What began in it may go on behind it, up to what is known next.
void MetadataWalk::lose_record(std::uint64_t record, const std::string& what) {
  visitor_.damage(slab_record_place(record), what);
  lost_ = true;
  unknown_from_ = unknown_from_.value_or(std::max(next_, record * slabs_per_record));
}

void MetadataWalk::visit_entries(std::uint64_t record, const SavedSlabs& entries) {
  read_bitmaps(record, entries);
  for (std::uint64_t index = 0; index < slabs_per_record; ++index) {
    if (entries[index].content != SlabContent::nothing) {
      visit_entry(record * slabs_per_record + index, entries[index]);
    }
  }
}

void MetadataWalk::visit_entry(std::uint64_t slab, const SavedSlab& saved) {
  const std::uint64_t length = saved.length();
  const std::uint64_t most = header_ ? header_->used_slabs : slabs_;
  if (slab < next_ || length > slabs_ || slab > slabs_ - length) {
    visitor_.damage(entry_place(slab),
                    "what begins at slab " + std::to_string(slab) + " overlaps another or reaches beyond the capacity");
    unknown_from_ = unknown_from_.value_or(std::max(next_, std::min(slab, slabs_)));
    return;
  }
  if (slab + length > most && !beyond_told_) {
    beyond_told_ = true;
    visitor_.damage(entry_place(slab), "what begins at slab " + std::to_string(slab) + " reaches beyond the " +
                                           std::to_string(most) + " slabs that the header says are in use");
  }
  if (unknown_from_) {
    visitor_.unknown(*unknown_from_, slab);
    unknown_from_.reset();
  }
  next_ = slab + length;
  if (saved.content == SlabContent::large_block) {
    visitor_.large_block(slab, saved);
  } else {
    visit_span(slab, saved);
  }
}

/// Those of a whole record at once: they are neighbours.
void MetadataWalk::read_bitmaps(std::uint64_t record, const SavedSlabs& entries) {
  std::uint64_t first = slabs_;
  std::uint64_t end = 0;
  for (std::uint64_t index = 0; index < slabs_per_record; ++index) {
    const std::uint64_t slab = record * slabs_per_record + index;
    if (entries[index].content == SlabContent::span && !has_inline_bits(size_classes[entries[index].size_class]) &&
        slab < slabs_) {
      first = std::min(first, slab);
      end = slab + 1;
    }
  }
  bitmaps_from_ = first;
  bitmaps_.assign(end > first ? (end - first) * most_bitmap_bytes : 0, std::byte{0});
  try {
    if (!bitmaps_.empty()) {
      area_.read_record(metadata_bitmap_place(slabs_, first), bitmaps_);
    }
  } catch (const StoreError&) {
    bitmaps_.clear();
  }
}

void MetadataWalk::visit_span(std::uint64_t slab, const SavedSlab& saved) {
  const SizeClass& size = size_classes[saved.size_class];
  if (has_inline_bits(size)) {
    visitor_.span(slab, saved, std::span(&saved.value, 1));
    return;
  }
  const std::uint64_t place = metadata_bitmap_place(slabs_, slab);
  std::array<std::uint64_t, most_span_slots / 64> words;
  std::array<std::byte, most_bitmap_bytes> alone;
  std::span<const std::byte> bytes;
  try {
    if (bitmaps_.empty()) {
      area_.read_record(place, std::span(alone).first(bitmap_bytes(size)));
      bytes = std::span(alone).first(bitmap_bytes(size));
    } else {
      bytes = std::span(bitmaps_).subspan((slab - bitmaps_from_) * most_bitmap_bytes, bitmap_bytes(size));
    }
    decode_bitmap(slab, saved, bytes, std::span(words).first(size.words()));
  } catch (const StoreError& error) {
    visitor_.damage(place, reason(error));
    visitor_.span(slab, saved, {});
    return;
  }
  visitor_.span(slab, saved, std::span(words).first(size.words()));
}

void MetadataWalk::finish() {
  const std::uint64_t end = std::max(next_, header_ ? header_->used_slabs : slabs_);
  if (unknown_from_ && *unknown_from_ < end) {
    visitor_.unknown(*unknown_from_, end);
  }
  if (header_ && !lost_ && sum_ != header_->record_sum) {
    visitor_.damage(0, "the slab records are not all of one save: one was lost, or is of another time");
  }
}

}  // namespace tiermap
