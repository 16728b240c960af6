#include "heap/open_heaps.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct OpenHeaps {
  std::mutex mutex;
  std::map<const void*, HeapImplementation*> heaps;  ///< Guarded by the mutex.
  std::atomic<std::uint64_t> changes{1};             ///< Counted up under it.
};

/// Never destroyed, as heaps may be closed by destructors that run after those of this file.
OpenHeaps& open_heaps() {
  static OpenHeaps& all = *new OpenHeaps;
  return all;
}

/// What a thread found last, which holds until any heap is opened or closed.
struct LastFound {
  std::uint64_t changes = 0;
  const void* base = nullptr;
  HeapImplementation* heap = nullptr;
};
thread_local LastFound last_found;

}  // namespace

void add_open_heap(const std::byte* base, HeapImplementation& heap) {
  OpenHeaps& all = open_heaps();
  const std::lock_guard lock(all.mutex);
  all.heaps[base] = &heap;
  all.changes.fetch_add(1, std::memory_order_release);
}

void remove_open_heap(const std::byte* base) noexcept {
  OpenHeaps& all = open_heaps();
  const std::lock_guard lock(all.mutex);
  all.heaps.erase(base);
  all.changes.fetch_add(1, std::memory_order_release);
}

HeapImplementation& open_heap_at(const void* base) {
  OpenHeaps& all = open_heaps();
  LastFound& last = last_found;
  if (last.base == base && last.changes == all.changes.load(std::memory_order_acquire)) {
    return *last.heap;
  }
  const std::lock_guard lock(all.mutex);
  const auto found = all.heaps.find(base);
  if (found == all.heaps.end()) {
    throw OptionError(
        "no heap is open where an allocator's is said to be: keep the heap open for as long as its containers are "
        "used");
  }
  last = {all.changes.load(std::memory_order_relaxed), base, found->second};
  return *found->second;
}

}  // namespace tiermap
