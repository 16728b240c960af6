#include "heap/compaction.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>

#include "heap/block_check.hpp"
#include "heap/checkpointed_store.hpp"
#include "heap/disk_use.hpp"
#include "heap/heap_directory.hpp"
#include "heap/metadata_walk.hpp"
#include "heap/saved_heap.hpp"
#include "heap/span.hpp"
#include "heap/store_bytes.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Makes holes between what is used, which is told in order.
class Gaps {
 public:
  /// Of the bytes from `begin`, a page's first, to `end` of the store.
  Gaps(Store& store, std::uint64_t begin, std::uint64_t end) : store_(store), free_from_(begin), end_(end) {}

  void use(std::uint64_t begin, std::uint64_t end) {
    punch(begin / heap_page_bytes * heap_page_bytes);
    free_from_ = std::max(free_from_, (end + heap_page_bytes - 1) / heap_page_bytes * heap_page_bytes);
  }
  void finish() { punch(end_); }

 private:
  void punch(std::uint64_t end) {
    if (end <= free_from_) {
      return;
    }
    if (const int result = store_.punch(free_from_, end - free_from_); result != 0) {
      throw_file_error(-result, store_.name(), "cannot give back free space");
    }
    free_from_ = end;
  }

  Store& store_;
  std::uint64_t free_from_;
  const std::uint64_t end_;
};

class Compaction final : public MetadataVisitor {
 public:
  Compaction(Store& store, const HeapLayout& layout, const HeapProgress& progress)
      : layout_(layout),
        slabs_((layout.end - layout.data_offset) >> slab_shift),
        bitmaps_(store, HeapLayout::metadata_offset + metadata_bitmap_place(slabs_, 0), layout.names_offset),
        blocks_(store, layout.data_offset, layout.end),
        progress_(progress) {}

  void damage(std::uint64_t, const std::string& what) override { refuse_heap_metadata(what); }
  void unknown(std::uint64_t, std::uint64_t) override {}

  void span(std::uint64_t slab, const SavedSlab& saved, std::span<const std::uint64_t> bits) override {
    const SizeClass& size = size_classes[saved.size_class];
    if (!has_inline_bits(size)) {
      const std::uint64_t bitmap = HeapLayout::metadata_offset + metadata_bitmap_place(slabs_, slab);
      bitmaps_.use(bitmap, bitmap + bitmap_bytes(size));
    }
    const std::uint64_t begin = layout_.data_offset + (slab << slab_shift);
    for (std::size_t word = 0; word < bits.size(); ++word) {
      for (std::uint64_t live = bits[word]; live != 0; live &= live - 1) {
        const std::uint64_t slot = word * 64 + static_cast<unsigned>(std::countr_zero(live));
        blocks_.use(begin + slot * size.bytes, begin + (slot + 1) * size.bytes);
      }
    }
  }

  /// Up to the end of its last slab: block_bytes() says that all of it may be used.
  void large_block(std::uint64_t slab, const SavedSlab& saved) override {
    const std::uint64_t begin = layout_.data_offset + (slab << slab_shift);
    blocks_.use(begin, begin + (saved.length() << slab_shift));
  }

  void passed(std::uint64_t slab, std::uint64_t end_slab) override {
    if (progress_) {
      progress_(slab << slab_shift, end_slab << slab_shift);
    }
  }

  void finish() {
    bitmaps_.finish();
    blocks_.finish();
  }

 private:
  const HeapLayout layout_;
  const std::uint64_t slabs_;
  Gaps bitmaps_;
  Gaps blocks_;
  const HeapProgress& progress_;
};

void punch_names(Store& store, const HeapLayout& layout, const HeapStateBlock& state) {
  Gaps names(store, layout.names_offset, layout.names_offset + layout.names_capacity_bytes);
  names.use(layout.names_offset, layout.names_offset + state.names_bytes);
  names.finish();
}

void require_sound(const std::string& path) {
  const HeapCheck check = check_heap(path, {});
  if (!check.sound()) {
    throw StoreError(EUCLEAN, "heap " + path + " is not sound, and is left as it is: 'tiermap heap check' says why");
  }
}

}  // namespace

HeapCompaction compact_heap(const std::string& path, const HeapProgress& progress) {
  HeapCompaction result;
  result.bytes_before = bytes_on_disk(path);
  result.journal_bytes_before = bytes_on_disk(path + "/journal");
  require_sound(path);
  {
    const HeapFiles files = open_heap_files(path, true);
    Store& data = *files.data;
    const HeapSuperblock superblock = read_superblock(data, path);
    const HeapLayout layout(superblock.capacity_bytes);
    if (files.journal->size_bytes() != 0) {
      // Opening it finishes what a crash left, and closing it empties the journal.
      const CheckpointedStore finished(files.data, files.journal, superblock.identity, true, layout.end);
    }
    const HeapStateBlock state = read_state(data, layout, path);
    require_saved(state, path);
    StoreMetadataArea area(data, HeapLayout::metadata_offset);
    Compaction compaction(data, layout, progress);
    MetadataWalk(area, superblock.capacity_bytes >> slab_shift, false, compaction).run();
    compaction.finish();
    punch_names(data, layout, state);
    if (const int error = data.flush(); error != 0) {
      throw_file_error(-error, "heap " + path, "cannot be saved");
    }
  }
  result.bytes_after = bytes_on_disk(path);
  result.journal_bytes_after = bytes_on_disk(path + "/journal");
  return result;
}

}  // namespace tiermap
