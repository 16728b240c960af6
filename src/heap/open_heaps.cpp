#include "heap/open_heaps.hpp"

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>

#include "platform/hold_over_forks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constinit std::mutex heaps_mutex;
/// So that a child, which may open heaps of its own, does not find it locked by a thread that stayed with its parent.
[[maybe_unused]] const int held_over_forks = hold_over_forks<heaps_mutex>();
constinit std::atomic<std::uint64_t> heap_changes{1};  ///< Counted up under the mutex.

/// Guarded by the mutex, from its making on. Never destroyed, as heaps may be closed by destructors that run after
/// those of this file.
std::map<const void*, HeapImplementation*>& open_heaps() {
  static auto& all = *new std::map<const void*, HeapImplementation*>;
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
  const std::lock_guard lock(heaps_mutex);
  open_heaps()[base] = &heap;
  heap_changes.fetch_add(1, std::memory_order_release);
}

void remove_open_heap(const std::byte* base) noexcept {
  const std::lock_guard lock(heaps_mutex);
  open_heaps().erase(base);
  heap_changes.fetch_add(1, std::memory_order_release);
}

HeapImplementation& open_heap_at(const void* base) {
  LastFound& last = last_found;
  if (last.base == base && last.changes == heap_changes.load(std::memory_order_acquire)) {
    return *last.heap;
  }
  const std::lock_guard lock(heaps_mutex);
  const auto found = open_heaps().find(base);
  if (found == open_heaps().end()) {
    throw OptionError(
        "no heap is open where an allocator's is said to be: keep the heap open for as long as its containers are "
        "used");
  }
  last = {heap_changes.load(std::memory_order_relaxed), base, found->second};
  return *found->second;
}

}  // namespace tiermap
