#include "heap/free_runs.hpp"

#include <iterator>

namespace tiermap {

void FreeRuns::add(std::uint64_t first, std::uint64_t count) {
  if (count > 0) {
    by_first_.emplace(first, count);
    by_length_.emplace(count, first);
    free_slabs_ += count;
  }
}

void FreeRuns::remove(std::map<std::uint64_t, std::uint64_t>::iterator run) {
  by_length_.erase({run->second, run->first});
  free_slabs_ -= run->second;
  by_first_.erase(run);
}

std::uint64_t FreeRuns::take(std::uint64_t count, std::uint64_t alignment) {
  for (auto run = by_length_.lower_bound({count, 0}); run != by_length_.end(); ++run) {
    const auto [length, first] = *run;
    const std::uint64_t aligned = (first + alignment - 1) / alignment * alignment;
    if (aligned - first + count > length) {
      continue;
    }
    remove(by_first_.find(first));
    add(first, aligned - first);
    add(aligned + count, length - count - (aligned - first));
    return aligned;
  }
  return none;
}

void FreeRuns::give(std::uint64_t first, std::uint64_t count) {
  const auto after = by_first_.lower_bound(first);
  if (after != by_first_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == first) {
      first = before->first;
      count += before->second;
      remove(before);
    }
  }
  if (after != by_first_.end() && after->first == first + count) {
    count += after->second;
    remove(after);
  }
  add(first, count);
}

std::uint64_t FreeRuns::end_of_run(std::uint64_t slab) const noexcept {
  auto run = by_first_.upper_bound(slab);
  if (run == by_first_.begin()) {
    return none;
  }
  --run;
  return run->first + run->second > slab ? run->first + run->second : none;
}

}  // namespace tiermap
