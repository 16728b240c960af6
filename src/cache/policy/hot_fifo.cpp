#include "cache/policy/hot_fifo.hpp"

#include <algorithm>
#include <bit>

#include "cache/policy/page_hash.hpp"

namespace tiermap {

HotFifo::HotFifo(const PolicyOptions& options)
    : hot_share_percent_(options.hot_share_percent),
      unmapped_share_percent_(options.unmapped_share_percent == 0 ? default_unmapped_share_percent
                                                                  : options.unmapped_share_percent),
      frames_(options.max_frames),
      histories_(options.max_frames),
      buckets_(std::bit_ceil(std::size_t{options.max_frames} + 1) * buckets_per_frame) {
  capacity_changed(options.capacity_units);
}

void HotFifo::capacity_changed(std::uint64_t capacity_units) {
  hot_limit_units_ = capacity_units * hot_share_percent_ / 100;
}

void HotFifo::filled(FrameId frame, PageKey key, std::uint32_t units, FillKind /*kind*/) {
  removed(frame, false);
  return_one_refused();
  frames_.enter(frame, units);
  most_resident_frames_ = std::max(most_resident_frames_, std::bit_ceil(frames_.resident_frames()));
  FrameHistory& history = histories_[frame];
  history.bucket = static_cast<std::uint32_t>(hash_of(key) & (most_resident_frames_ * buckets_per_frame - 1));
  history.faults = std::max<std::uint16_t>(buckets_[history.bucket], 1);
  history.in_hot_fifo = false;
  faults_of_residents_ += history.faults;
  frames_.put_young(primary_list, frame);
}

void HotFifo::rescued(FrameId frame) {
  if (!frames_.resident(frame)) {
    return;
  }
  FrameHistory& history = histories_[frame];
  if (history.faults < most_faults) {
    ++history.faults;
    ++faults_of_residents_;
  }
  history.in_hot_fifo = false;
  frames_.put_young(primary_list, frame);
}

void HotFifo::removed(FrameId frame, bool /*evicted*/) {
  if (!frames_.resident(frame)) {
    return;
  }
  const FrameHistory& history = histories_[frame];
  std::uint16_t& bucket = buckets_[history.bucket];
  if (history.faults > bucket) {
    bucket = history.faults;
  } else if (history.faults == bucket && bucket > 1) {
    --bucket;
  }
  faults_of_residents_ -= history.faults;
  frames_.leave(frame);
}

void HotFifo::advised(FrameId frame, Hotness hotness) {
  const Place list = frames_.place(frame);
  if (list < first_list) {
    return;
  }
  if (hotness == Hotness::hot) {
    frames_.put_young(list, frame);
    return;
  }
  // Cold pages go before others, so not through the hot FIFO.
  histories_[frame].in_hot_fifo = false;
  faults_of_residents_ -= histories_[frame].faults - 1U;
  histories_[frame].faults = 1;
  frames_.put_old(list == hot_list ? primary_list : list, frame);
}

bool HotFifo::above_average(FrameId frame) const {
  return std::uint64_t{histories_[frame].faults} * frames_.resident_frames() > faults_of_residents_;
}

// Each turn of the loop moves a page from the primary to the hot FIFO, which it does once between two fills or rescues.
FrameId HotFifo::next_victim() {
  while (!frames_.empty(primary_list)) {
    const FrameId frame = frames_.oldest(primary_list);
    if (hot_limit_units_ == 0 || !above_average(frame)) {
      return frame;
    }
    histories_[frame].in_hot_fifo = true;
    frames_.put_young(hot_list, frame);
    if (frames_.list_units(hot_list) > hot_limit_units_) {
      return frames_.oldest(hot_list);
    }
  }
  return frames_.oldest(frames_.empty(hot_list) ? refused_list : hot_list);
}

std::size_t HotFifo::choose_to_unmap(std::span<FrameId> victims) {
  std::size_t chosen = 0;
  while (chosen < victims.size()) {
    const FrameId frame = next_victim();
    if (frame == no_frame) {
      break;
    }
    frames_.name(frame);
    victims[chosen] = frame;
    ++chosen;
  }
  return chosen;
}

void HotFifo::unmapped(FrameId frame) {
  if (frames_.resident(frame) && frames_.place(frame) != unmapped_list) {
    histories_[frame].in_hot_fifo = false;
    frames_.put_young(unmapped_list, frame);
  }
}

// In its old queue a pinned page could be the only one, and be named for ever while the other queue is full.
void HotFifo::refused(FrameId frame) {
  if (frames_.resident(frame)) {
    frames_.put_young(refused_list, frame);
  }
}

void HotFifo::return_one_refused() {
  const FrameId frame = frames_.oldest(refused_list);
  if (frame != no_frame) {
    frames_.put_young(histories_[frame].in_hot_fifo ? hot_list : primary_list, frame);
  }
}

FrameId HotFifo::choose_to_free() {
  const FrameId frame = frames_.oldest(unmapped_list);
  if (frame != no_frame) {
    frames_.name(frame);
  }
  return frame;
}

}  // namespace tiermap
