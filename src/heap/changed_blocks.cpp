#include "heap/changed_blocks.hpp"

#include <algorithm>

namespace tiermap {
namespace {

/// So many retired slots are worth a look at the readers.
constexpr std::size_t many_retired = 256;

}  // namespace

ChangedBlocks::ChangedBlocks(std::uint64_t blocks, std::uint64_t generation)
    : places_(static_cast<std::size_t>(blocks)), generation_(generation) {}

std::uint64_t ChangedBlocks::run_length(BlockPlace place, std::uint64_t block, std::uint64_t end) const noexcept {
  std::uint64_t next = block + 1;
  for (BlockPlace expected = place.next(); next < end && this->place(next) == expected; expected = expected.next()) {
    ++next;
  }
  return next - block;
}

unsigned ChangedBlocks::begin_reading() const noexcept {
  for (;;) {
    const std::uint64_t epoch = epoch_.load();
    const auto parity = static_cast<unsigned>(epoch % 2);
    readers_[parity].fetch_add(1);
    if (epoch_.load() == epoch) {
      return parity;
    }
    readers_[parity].fetch_sub(1);
  }
}

void ChangedBlocks::end_reading(unsigned parity) const noexcept {
  readers_[parity].fetch_sub(1);
}

SlotRun ChangedBlocks::take_slots(std::uint32_t most) {
  const std::lock_guard lock(mutex_);
  if (retired_.size() + retired_before_.size() >= many_retired) {
    free_retired();
  }
  const SlotRun slots = space_.take(most, most_slots);
  uses_.resize(std::max<std::size_t>(uses_.size(), space_.end()));
  return slots;
}

void ChangedBlocks::give_back(SlotRun slots) {
  const std::lock_guard lock(mutex_);
  space_.give(slots);
}

void ChangedBlocks::publish(std::uint64_t first, SlotRun slots, std::span<const std::uint64_t> checksums) {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t index = 0; index < slots.count; ++index) {
    const std::uint32_t slot = slots.first + index;
    uses_[slot] = {first + index, checksums[index], generation_};
    put_place(first + index, BlockPlace::in_slot(slot));
  }
}

void ChangedBlocks::publish_zeros(std::uint64_t first, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  zeroed_.emplace_back(first, end);
  for (std::uint64_t block = first; block < end; ++block) {
    put_place(block, BlockPlace::zeros());
  }
}

/// Under mutex_. A slot of an earlier generation belongs to the commit that is under way.
void ChangedBlocks::put_place(std::uint64_t block, BlockPlace place) {
  const auto before =
      BlockPlace::from_word(places_[static_cast<std::size_t>(block)].exchange(place.word(), std::memory_order_acq_rel));
  if (before.is_slot() && uses_[before.slot()].generation == generation_) {
    uses_[before.slot()].generation = 0;
    retired_.push_back(before.slot());
  }
}

bool ChangedBlocks::has_changes() const {
  const std::lock_guard lock(mutex_);
  return !zeroed_.empty() ||
         std::ranges::any_of(uses_, [this](const SlotUse& use) { return use.generation == generation_; });
}

std::pair<std::vector<JournalEntry>, std::uint64_t> ChangedBlocks::seal() {
  const std::lock_guard lock(mutex_);
  std::vector<JournalEntry> entries;
  for (std::uint32_t slot = 0; slot < space_.end(); ++slot) {
    const SlotUse& use = uses_[slot];
    if (use.generation == generation_) {
      entries.push_back({use.block, slot, 1, use.checksum});
    }
  }
  std::ranges::sort(zeroed_);
  std::uint64_t seen = 0;
  for (const auto& [first, end] : zeroed_) {
    for (std::uint64_t block = std::max(first, seen); block < end; ++block) {
      if (!place(block).is_zeros()) {
        continue;
      }
      if (!entries.empty() && entries.back().zeros() && entries.back().block + entries.back().count == block &&
          entries.back().count < no_slot) {
        ++entries.back().count;
      } else {
        entries.push_back({block, no_slot, 1, 0});
      }
    }
    seen = std::max(seen, end);
  }
  std::ranges::sort(entries, {}, &JournalEntry::block);
  zeroed_.clear();
  return {std::move(entries), generation_++};
}

void ChangedBlocks::settle(std::span<const JournalEntry> entries) noexcept {
  for (const JournalEntry& entry : entries) {
    const std::uint32_t was = entry.zeros() ? BlockPlace::zeros().word() : BlockPlace::in_slot(entry.slot).word();
    for (std::uint64_t block = entry.block; block < entry.block + entry.count; ++block) {
      std::uint32_t expected = was;
      places_[static_cast<std::size_t>(block)].compare_exchange_strong(expected, BlockPlace::base().word(),
                                                                       std::memory_order_acq_rel);
    }
  }
}

void ChangedBlocks::retire(std::span<const std::uint32_t> slots) {
  const std::lock_guard lock(mutex_);
  for (const std::uint32_t slot : slots) {
    uses_[slot].generation = 0;
  }
  retired_.insert(retired_.end(), slots.begin(), slots.end());
}

/// Under mutex_.
void ChangedBlocks::free_retired() {
  if (readers_[(epoch_.load() + 1) % 2].load() != 0) {
    return;  // Of the epoch before.
  }
  std::ranges::sort(retired_before_);
  for (const std::uint32_t slot : retired_before_) {
    space_.give({slot, 1});
  }
  retired_before_ = std::move(retired_);
  retired_.clear();
  epoch_.fetch_add(1);
}

void ChangedBlocks::recycle(const std::function<void(std::uint32_t)>& cut) {
  const std::lock_guard lock(mutex_);
  // Twice, since what was retired just now is behind an epoch only then.
  free_retired();
  free_retired();
  cut(space_.end());
}

bool ChangedBlocks::adopt(std::span<const JournalEntry> entries, std::span<const std::uint32_t> index_slots) {
  const std::lock_guard lock(mutex_);
  const auto claim = [this](std::uint32_t slot) {
    if (!space_.claim(slot)) {
      return false;
    }
    uses_.resize(std::max<std::size_t>(uses_.size(), space_.end()));
    return true;
  };
  for (const JournalEntry& entry : entries) {
    if (!entry.zeros() && !claim(entry.slot)) {
      return false;
    }
    const BlockPlace place = entry.zeros() ? BlockPlace::zeros() : BlockPlace::in_slot(entry.slot);
    for (std::uint64_t block = entry.block; block < entry.block + entry.count; ++block) {
      places_[static_cast<std::size_t>(block)].store(place.word(), std::memory_order_release);
    }
  }
  return std::ranges::all_of(index_slots, claim);
}

std::uint64_t ChangedBlocks::slots_in_use() const {
  const std::lock_guard lock(mutex_);
  return space_.in_use();
}

}  // namespace tiermap
