#include "heap/slot_caches.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace tiermap {

SlotCaches::SlotCaches() : caches_(static_cast<std::size_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_CONF)))) {}

SlotCaches::Holding SlotCaches::hold() noexcept {
  // Where this fails, -1, any cache will do.
  const std::size_t processor = static_cast<unsigned>(::sched_getcpu());
  std::size_t index = processor < size() ? processor : processor % size();
  for (std::size_t tried = 0; tried < size(); ++tried) {
    if (try_hold(caches_[index])) {
      return Holding(&caches_[index]);
    }
    index = index + 1 < size() ? index + 1 : 0;
  }
  return Holding(nullptr);
}

SlotCaches::Holding SlotCaches::hold(std::size_t index) noexcept {
  while (!try_hold(caches_[index])) {
    ::sched_yield();
  }
  return Holding(&caches_[index]);
}

}  // namespace tiermap
