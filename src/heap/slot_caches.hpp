// Free slots at hand, a cache for each processor: most blocks come from one and go back to one without meeting another
// thread.
//
// By processor and not by thread: there are never more than processors, whatever threads come and go, and one that ends
// leaves nothing behind. A cache is held for a few instructions. Who finds it held, since its holder was moved to
// another processor or put to sleep in the midst, does not wait but takes the next one.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "heap/size_classes.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// Slots of up to 8 KiB are cached; who asks for more writes so much that a lock is nothing beside it.
inline constexpr unsigned cached_class_count = 64;
inline constexpr std::uint64_t largest_cached_bytes = size_class_bytes(cached_class_count - 1);

inline constexpr unsigned most_cached_slots = 64;

/// How many a cache keeps of each class: 32 KiB of them, within bounds. A table, since each free asks.
inline constexpr auto cache_capacities = [] {
  std::array<std::uint8_t, cached_class_count> capacities{};
  for (unsigned size_class = 0; size_class < cached_class_count; ++size_class) {
    const std::uint64_t fit = (32 << 10) / size_class_bytes(size_class);
    capacities[size_class] = static_cast<std::uint8_t>(std::clamp<std::uint64_t>(fit, 4, most_cached_slots));
  }
  return capacities;
}();

/// Belongs to whoever holds it.
struct alignas(64) SlotCache {
  std::atomic<bool> held;
  std::uint8_t counts[cached_class_count];
  std::uint64_t slots[cached_class_count][most_cached_slots];  ///< Offsets; the last is taken first.
};

class SlotCaches {
 public:
  /// A cache as long as this lives; none if all are held.
  class Holding {
   public:
    explicit Holding(SlotCache* cache) noexcept : cache_(cache) {}
    Holding(const Holding&) = delete;
    Holding& operator=(const Holding&) = delete;
    ~Holding() {
      if (cache_ != nullptr) {
        cache_->held.store(false, std::memory_order_release);
      }
    }
    SlotCache* operator->() const noexcept { return cache_; }
    SlotCache& operator*() const noexcept { return *cache_; }
    explicit operator bool() const noexcept { return cache_ != nullptr; }

   private:
    SlotCache* cache_;
  };

  SlotCaches();

  /// The cache of this processor, or the next that is not held.
  Holding hold() noexcept;
  /// Waits for it.
  Holding hold(std::size_t index) noexcept;
  std::size_t size() const noexcept { return caches_.size(); }

 private:
  static bool try_hold(SlotCache& cache) noexcept {
    return !cache.held.load(std::memory_order_relaxed) && !cache.held.exchange(true, std::memory_order_acquire);
  }

  LazyArray<SlotCache> caches_;
};

}  // namespace tiermap
