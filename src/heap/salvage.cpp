#include "heap/salvage.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "heap/metadata_walk.hpp"
#include "heap/span.hpp"
#include "heap/store_bytes.hpp"
#include "store/file_open.hpp"

namespace tiermap {
namespace {

/// Writes what differs from what is there: the rest may be shared with the heap that was copied, or be a hole.
void write_changed(Store& data, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::vector<std::byte> before(bytes.size());
  read_bytes(data, offset, before);
  if (!std::ranges::equal(before, bytes)) {
    write_bytes(data, offset, bytes);
  }
}

/// Metadata by which all that may be in use is.
class SalvagedMetadata final : public MetadataVisitor {
 public:
  SalvagedMetadata(Store& data, std::uint64_t slabs, HeapSalvage& salvage)
      : data_(data), slabs_(slabs), salvage_(salvage) {}

  void damage(std::uint64_t, const std::string&) override {}
  void passed(std::uint64_t, std::uint64_t) override {}

  void span(std::uint64_t slab, const SavedSlab& saved, std::span<const std::uint64_t> bits) override {
    if (!bits.empty()) {
      put(slab, saved);
      return;
    }
    const SizeClass& size = size_classes[saved.size_class];
    std::array<std::uint64_t, most_span_slots / 64> words;
    for (unsigned word = 0; word < size.words(); ++word) {
      words[word] = slots_of_word(size, word);
    }
    std::array<std::byte, most_bitmap_bytes> bytes;
    const std::span bitmap = std::span(bytes).first(bitmap_bytes(size));
    const std::uint64_t checksum = encode_bitmap(slab, std::span(words).first(size.words()), bitmap);
    write_changed(data_, HeapLayout::metadata_offset + metadata_bitmap_place(slabs_, slab), bitmap);
    put(slab, {SlabContent::span, saved.size_class, size.slots, checksum});
    salvage_.unsure_blocks += size.slots;
  }

  void large_block(std::uint64_t slab, const SavedSlab& saved) override { put(slab, saved); }

  /// As blocks of 8 bytes, all live: whatever begins in there can be freed, and takes nothing else with it.
  void unknown(std::uint64_t first_slab, std::uint64_t end_slab) override {
    const SizeClass& size = size_classes[0];
    static_assert(size_classes[0].slabs == 1 && bitmap_bytes(size_classes[0]) == most_bitmap_bytes);
    const std::vector<std::uint64_t> words(size.words(), ~std::uint64_t{0});
    std::vector<std::byte> bitmaps;
    for (std::uint64_t begin = first_slab; begin < end_slab; begin += slabs_per_record) {
      const std::uint64_t count = std::min<std::uint64_t>(slabs_per_record, end_slab - begin);
      bitmaps.resize(count * most_bitmap_bytes);
      for (std::uint64_t index = 0; index < count; ++index) {
        const std::span bitmap = std::span(bitmaps).subspan(index * most_bitmap_bytes, most_bitmap_bytes);
        put(begin + index, {SlabContent::span, 0, size.slots, encode_bitmap(begin + index, words, bitmap)});
      }
      write_changed(data_, HeapLayout::metadata_offset + metadata_bitmap_place(slabs_, begin), bitmaps);
    }
    salvage_.unknown_bytes += (end_slab - first_slab) * slab_bytes;
  }

  void finish() {
    write_records(slab_record_count(slabs_));
    write_changed(data_, HeapLayout::metadata_offset, encode_metadata_header({slabs_, used_, sum_}));
  }

 private:
  void put(std::uint64_t slab, const SavedSlab& saved) {
    write_records(slab / slabs_per_record);
    entries_[slab % slabs_per_record] = saved;
    used_ = slab + saved.length();
  }

  /// Those before `end`.
  void write_records(std::uint64_t end) {
    for (; record_ < end; ++record_) {
      std::array<std::byte, slab_record_bytes> bytes;
      sum_ += encode_slab_record(record_, entries_, bytes);
      write_changed(data_, HeapLayout::metadata_offset + slab_record_place(record_), bytes);
      entries_ = {};
    }
  }

  Store& data_;
  const std::uint64_t slabs_;
  HeapSalvage& salvage_;
  std::uint64_t record_ = 0;  ///< The record that entries_ is of.
  SavedSlabs entries_{};
  std::uint64_t used_ = 1;
  std::uint64_t sum_ = 0;
};

std::vector<std::byte> salvaged_names(const HeapRemains& remains, const BlockCheck& blocks, HeapSalvage& salvage) {
  std::vector<std::byte> bytes;
  std::set<std::pair<bool, std::string>> keys;
  for (std::size_t index = 0; index < remains.names().size(); ++index) {
    const NameRecord& record = remains.names()[index].record;
    const ObjectMemory memory = blocks.memory_of(index);
    const bool first = keys.emplace(record.unique, record.unique ? record.type : record.name).second;
    if (memory == ObjectMemory::free || !first) {
      salvage.lost.push_back(described(record));
      continue;
    }
    append_name_record(record, bytes);
    const bool sure = memory == ObjectMemory::live && remains.names_intact();
    (sure ? salvage.kept : salvage.doubtful).push_back(described(record));
  }
  return bytes;
}

}  // namespace

HeapStateBlock write_salvaged(Store& data, HeapRemains& remains, const BlockCheck& blocks, HeapSalvage& salvage) {
  const HeapLayout layout = remains.layout();
  if (data.size_bytes() < layout.end) {
    if (const int result = data.resize(layout.end); result != 0) {
      throw_file_error(-result, data.name(), "cannot be made as long as it was");
    }
  }
  const std::uint64_t slabs = remains.superblock()->capacity_bytes >> slab_shift;
  SalvagedMetadata metadata(data, slabs, salvage);
  StoreMetadataArea area(remains.store(), HeapLayout::metadata_offset);
  MetadataWalk(area, slabs, true, metadata).run();
  metadata.finish();
  const std::vector<std::byte> names = salvaged_names(remains, blocks, salvage);
  write_changed(data, layout.names_offset, names);
  HeapStateBlock state;
  state.generation = remains.generation();
  state.names_bytes = names.size();
  state.names_checksum = heap_checksum(names);
  return state;
}

}  // namespace tiermap
