#include "heap/slot_space.hpp"

#include <algorithm>
#include <iterator>

namespace tiermap {

SlotRun SlotSpace::take(std::uint32_t most, std::uint32_t limit) {
  SlotRun run;
  if (!free_.empty()) {
    const auto lowest = free_.begin();
    run = {lowest->first, std::min(most, lowest->second)};
    const SlotRun rest = {run.first + run.count, lowest->second - run.count};
    if (rest.count > 0) {
      auto node = free_.extract(lowest);  // No allocation.
      node.key() = rest.first;
      node.mapped() = rest.count;
      free_.insert(std::move(node));
    } else {
      free_.erase(lowest);
    }
  } else {
    run = {end_, std::min(most, limit - std::min(limit, end_))};
    end_ += run.count;
  }
  in_use_ += run.count;
  return run;
}

void SlotSpace::give(SlotRun run) {
  if (run.count == 0) {
    return;
  }
  in_use_ -= run.count;
  auto next = free_.lower_bound(run.first);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == run.first) {
      run = {before->first, before->second + run.count};
      free_.erase(before);
    }
  }
  if (next != free_.end() && run.first + run.count == next->first) {
    run.count += next->second;
    next = free_.erase(next);
  }
  if (run.first + run.count == end_) {
    end_ = run.first;
  } else {
    free_.emplace_hint(next, run.first, run.count);
  }
}

bool SlotSpace::claim(std::uint32_t slot) {
  if (slot >= end_) {
    if (slot > end_) {
      free_.emplace(end_, slot - end_);
    }
    end_ = slot + 1;
    ++in_use_;
    return true;
  }
  const auto behind = free_.upper_bound(slot);
  if (behind == free_.begin()) {
    return false;
  }
  const auto run = std::prev(behind);
  const std::uint32_t first = run->first;
  const std::uint32_t end = run->first + run->second;
  if (slot >= end) {
    return false;
  }
  free_.erase(run);
  if (first < slot) {
    free_.emplace(first, slot - first);
  }
  if (slot + 1 < end) {
    free_.emplace(slot + 1, end - slot - 1);
  }
  ++in_use_;
  return true;
}

}  // namespace tiermap
