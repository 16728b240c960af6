#include "cache/policy/small_main.hpp"

#include <bit>

#include "cache/policy/page_hash.hpp"

namespace tiermap {

SmallMain::SmallMain(const PolicyOptions& options)
    : unmapped_share_percent_(options.unmapped_share_percent == 0 ? default_unmapped_share_percent
                                                                  : options.unmapped_share_percent),
      frames_(options.max_frames),
      pages_(options.max_frames),
      ghosts_(options.max_frames) {
  capacity_changed(options.capacity_units);
}

void SmallMain::capacity_changed(std::uint64_t capacity_units) {
  small_limit_units_ = capacity_units * small_share_percent / 100;
}

// A page read ahead has not been asked for: that it was evicted lately says nothing about its use.
void SmallMain::filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) {
  return_one_refused();
  frames_.enter(frame, units);
  if (frames_.resident_frames() > most_resident_frames_) {
    most_resident_frames_ = std::bit_ceil(frames_.resident_frames());
    ghosts_.limit(most_resident_frames_);
  }
  const std::uint64_t hash = hash_of(key);
  const bool comes_back = ghosts_.take(hash, frames_.resident_frames());
  pages_[frame] = {hash, comes_back && kind == FillKind::fault};
  frames_.put_young(queue_of(frame), frame);
}

void SmallMain::rescued(FrameId frame) {
  if (frames_.resident(frame)) {
    pages_[frame].in_main = true;
    frames_.put_young(main_list, frame);
  }
}

void SmallMain::removed(FrameId frame, bool evicted) {
  if (evicted && frames_.resident(frame) && !pages_[frame].in_main) {
    ghosts_.insert(pages_[frame].hash);
  }
  frames_.leave(frame);
}

void SmallMain::advised(FrameId frame, Hotness hotness) {
  const Place list = frames_.place(frame);
  if (list < first_list) {
    return;
  }
  pages_[frame].in_main = hotness == Hotness::hot;
  const Place target = list == unmapped_list ? list : queue_of(frame);
  if (hotness == Hotness::hot) {
    frames_.put_young(target, frame);
  } else {
    frames_.put_old(target, frame);
  }
}

FrameId SmallMain::next_victim() const {
  if (frames_.empty(small_list) && frames_.empty(main_list)) {
    return frames_.oldest(refused_list);
  }
  const bool from_small = frames_.list_units(small_list) > small_limit_units_ || frames_.empty(main_list);
  return frames_.oldest(from_small ? small_list : main_list);
}

std::size_t SmallMain::choose_to_unmap(std::span<FrameId> victims) {
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

void SmallMain::unmapped(FrameId frame) {
  if (frames_.resident(frame) && frames_.place(frame) != unmapped_list) {
    frames_.put_young(unmapped_list, frame);
  }
}

// In the small queue pinned pages could be all there is, and be named for ever while the main queue is full.
void SmallMain::refused(FrameId frame) {
  if (frames_.resident(frame)) {
    frames_.put_young(refused_list, frame);
  }
}

void SmallMain::return_one_refused() {
  const FrameId frame = frames_.oldest(refused_list);
  if (frame != no_frame) {
    frames_.put_young(queue_of(frame), frame);
  }
}

FrameId SmallMain::choose_to_free() {
  const FrameId frame = frames_.oldest(unmapped_list);
  if (frame != no_frame) {
    frames_.name(frame);
  }
  return frame;
}

}  // namespace tiermap
