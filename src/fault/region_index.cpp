#include "fault/region_index.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "platform/page_sizes.hpp"

namespace tiermap {

RegionIndex::RegionIndex() : snapshot_(new Snapshot) {}

RegionIndex::~RegionIndex() {
  delete snapshot_.load();
}

RegionUse RegionIndex::find(const void* address) noexcept {
  // Counted before the snapshot is read: a change that sees the count at zero afterwards knows that no reader has the
  // old one.
  Readers& readers = readers_[(static_cast<std::uint64_t>(::pthread_self()) >> 12) % readers_.size()];
  readers.count.fetch_add(1);
  const Snapshot& entries = *snapshot_.load();
  const auto after = std::upper_bound(entries.begin(), entries.end(), address,
                                      [](const void* wanted, const Entry& entry) { return wanted < entry.start; });
  PagedRegion* found = nullptr;
  if (after != entries.begin()) {
    PagedRegion* candidate = std::prev(after)->region;
    const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(address) - candidate->memory);
    const std::uint64_t mapped = round_up(candidate->length.load(std::memory_order_acquire), block_bytes);
    if (offset < mapped) {
      candidate->users.fetch_add(1, std::memory_order_acq_rel);
      found = candidate;
    }
  }
  readers.count.fetch_sub(1);
  return RegionUse::adopt(found);
}

void RegionIndex::replace(std::unique_ptr<Snapshot> next) {
  const std::unique_ptr<Snapshot> old(snapshot_.exchange(next.release()));
  for (const Readers& readers : readers_) {
    while (readers.count.load() != 0) {
      ::sched_yield();
    }
  }
}

void RegionIndex::add(PagedRegion& region) {
  const std::lock_guard held(change_mutex_);
  auto next = std::make_unique<Snapshot>(*snapshot_.load());
  const Entry entry{region.memory, &region};
  next->insert(std::upper_bound(next->begin(), next->end(), entry,
                                [](const Entry& one, const Entry& other) { return one.start < other.start; }),
               entry);
  replace(std::move(next));
}

void RegionIndex::remove(const PagedRegion& region) {
  const std::lock_guard held(change_mutex_);
  auto next = std::make_unique<Snapshot>(*snapshot_.load());
  std::erase_if(*next, [&](const Entry& entry) { return entry.region == &region; });
  replace(std::move(next));
}

bool RegionIndex::empty() const noexcept {
  return snapshot_.load()->empty();
}

}  // namespace tiermap
