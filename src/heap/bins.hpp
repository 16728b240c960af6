// The spans of each size class that have available slots, and the traffic of slots between them and the caches.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "heap/slab_map.hpp"
#include "heap/span.hpp"
#include "platform/futex.hpp"

namespace tiermap {

/// Thread-safe. Slots are named by their offset in the data area.
class Bins {
 public:
  explicit Bins(SlabMap& slabs) noexcept : slabs_(slabs) {}

  /// Makes available slots of a class cached: up to as many as `slots` has room for, the lowest of a span first.
  /// Returns how many; 0 if there is no room for another span. Throws what reading a span's bits throws: that span is
  /// not asked again, and the next call goes on with others.
  unsigned take(unsigned size_class, std::span<std::uint64_t> slots);
  /// Makes cached slots of a class available.
  void put(unsigned size_class, std::span<const std::uint64_t> slots);
  /// A span that was loaded. Before other threads know of this.
  void add_loaded(Span& span);
  /// Each class keeps its last span when that gets empty, for the next block. These become free slabs.
  void release_empty_spans();
  /// The free pages in spans; the saving lock is held, and the span's bin during each call.
  void give_back(GiveBack which, const RangeCallback& given);

 private:
  struct alignas(64) Bin {
    FutexLock lock;
    Span* first = nullptr;  ///< Spans with available slots; the one that a slot came back to last is first.
  };

  static void link(Bin& bin, Span& span) noexcept;
  static void unlink(Bin& bin, Span& span) noexcept;
  Span* usable_span(Bin& bin, unsigned size_class, bool none_yet);
  void put_one(Bin& bin, const SizeClass& size, std::uint64_t offset);
  void give_back_pages(Span& span, GiveBack which, const RangeCallback& given);

  SlabMap& slabs_;
  std::array<Bin, size_class_count> bins_;
};

}  // namespace tiermap
