#include "heap/block_check.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "config/size.hpp"
#include "heap/store_bytes.hpp"

namespace tiermap {
namespace {

std::string name_of(const NameRecord& record) {
  return record.unique ? "the unique object of type " + name_in_source(record.type)
                       : "object " + quote_value(record.name);
}

}  // namespace

BlockCheck::BlockCheck(HeapRemains& remains, HeapCheck& check, HeapProgress progress)
    : remains_(remains),
      check_(check),
      progress_(std::move(progress)),
      memory_(remains.names().size(), ObjectMemory::free),
      by_offset_(remains.names().size()) {
  std::iota(by_offset_.begin(), by_offset_.end(), std::size_t{0});
  std::ranges::sort(by_offset_, {}, [&](std::size_t index) { return remains_.names()[index].record.offset; });
}

void BlockCheck::run() {
  StoreMetadataArea area(remains_.store(), HeapLayout::metadata_offset);
  const bool whole = check_.condition != HeapCondition::closed && check_.condition != HeapCondition::checkpoint;
  MetadataWalk(area, remains_.superblock()->capacity_bytes >> slab_shift, whole, *this).run();
  find_objects();
}

void BlockCheck::damage(std::uint64_t place, const std::string& what) {
  const bool bits = place >= metadata_bitmap_place(remains_.superblock()->capacity_bytes >> slab_shift, 0);
  check_.findings.push_back(
      {heap_data_file, HeapLayout::metadata_offset + place, what,
       bits ? "which of its blocks are live is not known; using it is refused, and so is what needs it"
            : "the heap cannot be opened: which memory is in use is not known for certain"});
}

/// The objects that begin before `end_offset` and were not judged yet.
template <typename Judge>
void BlockCheck::judge(std::uint64_t end_offset, Judge&& judge) {
  for (; next_ < by_offset_.size(); ++next_) {
    const NameRecord& record = remains_.names()[by_offset_[next_]].record;
    if (record.offset >= end_offset) {
      return;
    }
    memory_[by_offset_[next_]] = judge(record.offset, record.count * record.size_bytes);
  }
}

void BlockCheck::span(std::uint64_t slab, const SavedSlab& saved, std::span<const std::uint64_t> bits) {
  const SizeClass& size = size_classes[saved.size_class];
  const std::uint64_t begin = slab << slab_shift;
  judge(begin, [](std::uint64_t, std::uint64_t) { return ObjectMemory::free; });
  judge(begin + (saved.length() << slab_shift), [&](std::uint64_t offset, std::uint64_t bytes) {
    const std::uint64_t slot = (offset - begin) / size.bytes;
    // Memory of which nothing was known is kept by salvage_heap() in blocks of 8 bytes.
    const bool salvaged = saved.size_class == 0 && bytes > size.bytes;
    if ((offset - begin) % size.bytes != 0 || slot >= size.slots || (bytes > size.bytes && !salvaged)) {
      return ObjectMemory::free;
    }
    if (bits.empty()) {
      return ObjectMemory::unknown;
    }
    if ((bits[slot / 64] >> (slot % 64) & 1) == 0) {
      return ObjectMemory::free;
    }
    return salvaged ? ObjectMemory::unknown : ObjectMemory::live;
  });
  if (!bits.empty()) {
    check_.live_blocks += saved.live;
    check_.live_bytes += std::uint64_t{saved.live} * size.bytes;
  }
}

void BlockCheck::large_block(std::uint64_t slab, const SavedSlab& saved) {
  const std::uint64_t begin = slab << slab_shift;
  judge(begin, [](std::uint64_t, std::uint64_t) { return ObjectMemory::free; });
  judge(begin + (saved.length() << slab_shift), [&](std::uint64_t offset, std::uint64_t bytes) {
    return offset == begin && bytes <= saved.value ? ObjectMemory::live : ObjectMemory::free;
  });
  ++check_.live_blocks;
  check_.live_bytes += saved.value;
}

void BlockCheck::unknown(std::uint64_t first_slab, std::uint64_t end_slab) {
  judge(first_slab << slab_shift, [](std::uint64_t, std::uint64_t) { return ObjectMemory::free; });
  judge(end_slab << slab_shift, [](std::uint64_t, std::uint64_t) { return ObjectMemory::unknown; });
}

void BlockCheck::passed(std::uint64_t slab, std::uint64_t end_slab) {
  if (progress_) {
    progress_(slab << slab_shift, end_slab << slab_shift);
  }
}

void BlockCheck::find_objects() {
  const NameRecord* before = nullptr;
  for (const std::size_t index : by_offset_) {
    const FoundName& found = remains_.names()[index];
    if (memory_[index] == ObjectMemory::live && before != nullptr && before->offset == found.record.offset) {
      memory_[index] = ObjectMemory::free;
      check_.findings.push_back({heap_data_file, found.byte,
                                 name_of(found.record) + " is in the same block as " + name_of(*before),
                                 "one of the two is not there any more"});
    } else if (memory_[index] == ObjectMemory::free && remains_.names_intact()) {
      check_.findings.push_back({heap_data_file, found.byte,
                                 name_of(found.record) + " is at offset " + std::to_string(found.record.offset) +
                                     ", where no live block of its size begins",
                                 "the object is lost, or its memory may be given to another"});
    } else if (memory_[index] == ObjectMemory::live) {
      before = &found.record;
    }
  }
  for (std::size_t index = 0; index < memory_.size(); ++index) {
    const bool sure = memory_[index] == ObjectMemory::live && remains_.names_intact();
    (sure ? check_.intact : check_.doubtful).push_back(described(remains_.names()[index].record));
  }
}

HeapCheck check_heap(const std::string& path, const HeapProgress& progress) {
  HeapCheck check;
  HeapRemains remains(path, check);
  BlockCheck(remains, check, progress).run();
  return check;
}

}  // namespace tiermap
