#include "cache/policy/queue_policy.hpp"

namespace tiermap {

QueuePolicy::QueuePolicy(std::string_view name, FrameId max_frames, std::uint32_t unmapped_share_percent)
    : name_(name), unmapped_share_percent_(unmapped_share_percent), frames_(max_frames) {}

void QueuePolicy::filled(FrameId frame, PageKey /*key*/, std::uint32_t units, FillKind /*kind*/) {
  frames_.enter(frame, units);
  frames_.put_young(mapped_list, frame);
}

// A touch that was seen: the page is as young as one just filled.
void QueuePolicy::rescued(FrameId frame) {
  if (frames_.resident(frame)) {
    frames_.put_young(mapped_list, frame);
  }
}

void QueuePolicy::removed(FrameId frame, bool /*evicted*/) {
  frames_.leave(frame);
}

void QueuePolicy::advised(FrameId frame, Hotness hotness) {
  const Place list = frames_.place(frame);
  if (list < first_list) {
    return;
  }
  if (hotness == Hotness::hot) {
    frames_.put_young(list, frame);
  } else {
    frames_.put_old(list, frame);
  }
}

std::size_t QueuePolicy::choose_to_unmap(std::span<FrameId> victims) {
  std::size_t chosen = 0;
  while (chosen < victims.size() && !frames_.empty(mapped_list)) {
    victims[chosen] = frames_.oldest(mapped_list);
    frames_.name(victims[chosen]);
    ++chosen;
  }
  return chosen;
}

void QueuePolicy::unmapped(FrameId frame) {
  if (frames_.resident(frame) && frames_.place(frame) != unmapped_list) {
    frames_.put_young(unmapped_list, frame);
  }
}

void QueuePolicy::refused(FrameId frame) {
  if (frames_.resident(frame)) {
    frames_.put_young(mapped_list, frame);
  }
}

FrameId QueuePolicy::choose_to_free() {
  const FrameId frame = frames_.oldest(unmapped_list);
  if (frame != no_frame) {
    frames_.name(frame);
  }
  return frame;
}

}  // namespace tiermap
