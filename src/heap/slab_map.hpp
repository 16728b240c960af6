// What each slab of the data area is: part of a span, of a large block, or free. Owns the spans, and saves and loads
// them.
//
// The lock order of the whole allocator, first to last:
//
//   saving         one save, or one giving back, at a time             SlabMap::saving_lock()
//   cache          a cache of free slots; never waited for but to flush SlotCaches
//   bin            the spans of one class: lists, available slots      Bins
//   map            which slab is what; pages to give back; saved state SlabMap::lock_
//   loading        reading a span's saved bits                         SlabMap::loading_lock_
//   storage        memory for spans                                    SpanStorage
//
// Live bits and the table from slabs to spans are atomics, and looked at under no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "heap/allocator_statistics.hpp"
#include "heap/free_runs.hpp"
#include "heap/metadata_records.hpp"
#include "heap/page_ranges.hpp"
#include "heap/span.hpp"
#include "platform/futex.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Told of an offset and a length in bytes.
using RangeCallback = std::function<void(std::uint64_t offset, std::uint64_t bytes)>;

/// The first piece of [begin, end) that is no hole, as offsets; of no length if all of it is one.
using FirstData = std::function<std::pair<std::uint64_t, std::uint64_t>(std::uint64_t begin, std::uint64_t end)>;

/// Which pages are given back.
enum class GiveBack {
  free_now,         ///< All that are free: the saved state may need them still, and is of no use then until the next.
  free_when_saved,  ///< Those that were free also in the last save: a crash that leads back to it misses nothing.
};

/// Thread-safe.
class SlabMap {
 public:
  /// All free but slab 0. Throws OptionError for a capacity that cannot be.
  SlabMap(MetadataArea& area, std::uint64_t capacity_bytes);

  std::uint64_t capacity_bytes() const noexcept { return slabs_ << slab_shift; }

  /// The span around an offset; null where there is none.
  Span* span_of(std::uint64_t offset) const noexcept {
    const std::uint64_t slab = offset >> slab_shift;
    return slab < slabs_ ? span_in(head(slab)) : nullptr;
  }
  /// Its slots. Throws what reading them throws.
  SlotMap& slots_of(Span& span) {
    SlotMap* const slots = span.slots.load(std::memory_order_acquire);
    return slots != nullptr ? *slots : load_slots(span);
  }
  /// A live bit of it changed, just before.
  void mark_changed(Span& span) noexcept {
    // Sequentially consistent, like the change of the bit and what save() does the other way round: whoever finds the
    // mark set here has set his bit before save() looks.
    if (!span.changed.load(std::memory_order_seq_cst)) {
      span.changed.store(true, std::memory_order_seq_cst);
      flag_record(span.first_slab.load(std::memory_order_relaxed), changed_flag);
    }
  }

  /// A new span, all of its slots available; null if there is no room. The bin is locked.
  Span* make_span(unsigned size_class);
  /// All its slots are available, and it is in no list. The bin is locked.
  void release_span(Span& span);
  /// Slots of it came back. The bin is locked.
  void mark_freed_into(Span& span) noexcept {
    if (!span.freed_into) {
      span.freed_into = true;
      flag_freed_into(span);
    }
  }
  /// take_freed_into() is to name it.
  void flag_freed_into(const Span& span) noexcept {
    flag_record(span.first_slab.load(std::memory_order_relaxed), freed_flag);
  }

  /// A large block; 0 if there is no room.
  std::uint64_t allocate_run(std::uint64_t bytes, std::uint64_t alignment);
  /// False if no large block begins there.
  bool free_run(std::uint64_t offset);
  /// What was asked for; 0 if no large block begins there.
  std::uint64_t run_bytes(std::uint64_t offset) const noexcept;
  /// Whether the slab around it is in no span and no large block.
  bool is_free_slab(std::uint64_t offset);

  /// Writes what changed since the last save.
  void save();
  /// Reads what was saved, into a map that is as new; `found` is called for each span. Throws StoreError if it is
  /// damaged; the map is of no use then.
  void load(const std::function<void(Span&)>& found);

  std::mutex& saving_lock() noexcept { return saving_lock_; }
  /// What was free at load(), and has been since, is to be given back as far as `first_data` says; all of it if this is
  /// not called. The saving lock is held, and the map is locked during each call.
  void sort_out_holes(const FirstData& first_data);
  /// Free runs only: spans are Bins' matter. The saving lock is held; the map is locked during each call.
  void give_back_runs(GiveBack which, const RangeCallback& given);
  /// Spans that mark_freed_into() named since the last call, each once, and others near them.
  std::vector<Span*> take_freed_into();

  /// Nothing was ever placed at or above this offset.
  std::uint64_t used_end_bytes();
  void describe(AllocatorStatistics& statistics);
  /// Each live block and how many bytes it may use, in order. The map is locked meanwhile.
  void for_each_block(const RangeCallback& block);

 private:
  static constexpr std::uint8_t changed_flag = 1;
  static constexpr std::uint8_t freed_flag = 2;

  // A head is 0, the address of a Span (in all of its slabs), or of a large block's first slab the bytes asked for,
  // doubled, plus 1.
  static bool is_large(std::uint64_t head) noexcept { return (head & 1) != 0; }
  static Span* span_in(std::uint64_t head) noexcept { return is_large(head) ? nullptr : reinterpret_cast<Span*>(head); }
  static std::uint64_t slabs_of(std::uint64_t head) noexcept;
  std::uint64_t head(std::uint64_t slab) const noexcept { return heads_[slab].load(std::memory_order_acquire); }
  /// visit(slab, head) for each span and large block. The map is locked.
  template <typename Visit>
  void walk(Visit&& visit);

  void flag_record(std::uint64_t slab, std::uint8_t flag) noexcept {
    record_flags_[slab / slabs_per_record].fetch_or(flag, std::memory_order_seq_cst);
  }
  void note_used(std::uint64_t end) noexcept;
  void set_heads(const Span& span, std::uint64_t head) noexcept;
  SlotMap& load_slots(Span& span);
  void read_live_bits(const Span& span, std::span<std::uint64_t> words);

  void save_record(std::uint64_t record);
  SavedSlab saved_slab(std::uint64_t slab);
  void save_span(Span& span);
  void distrust_record(std::uint64_t record) noexcept;

  void load_record(std::uint64_t record, const SavedSlabs& saved, const std::function<void(Span&)>& found);
  void place(std::uint64_t slab, const SavedSlab& saved, const std::function<void(Span&)>& found);

  MetadataArea& area_;
  std::uint64_t slabs_;
  LazyArray<std::atomic<std::uint64_t>> heads_;
  LazyArray<std::atomic<std::uint8_t>> record_flags_;
  SpanStorage storage_;

  std::mutex saving_lock_;
  FutexLock lock_;
  // Guarded by lock_:
  FreeRuns free_runs_;
  PageRanges unknown_;     ///< Free pages of which nothing is known since load(): holes, or as the next.
  PageRanges unreported_;  ///< Free pages that may hold data, and were free when saved;
  PageRanges freed_;       ///< and those that were not.
  std::uint64_t used_slabs_ = 1;
  std::uint64_t loaded_slabs_ = 1;  ///< While loading: what comes next begins here or later.
  // Guarded by saving_lock_:
  LazyArray<std::uint64_t> record_checksums_;
  std::uint64_t record_sum_ = 0;
  bool header_saved_ = false;

  std::mutex loading_lock_;
};

template <typename Visit>
void SlabMap::walk(Visit&& visit) {
  for (std::uint64_t slab = 1; slab < used_slabs_;) {
    const std::uint64_t found = head(slab);
    if (found == 0) {
      slab = free_runs_.end_of_run(slab);
      continue;
    }
    visit(slab, found);
    slab += slabs_of(found);
  }
}

}  // namespace tiermap
