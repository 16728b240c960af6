#include "cache/policy/cyclic.hpp"

#include <algorithm>

#include "cache/policy/page_hash.hpp"

namespace tiermap {

namespace {

constexpr std::uint64_t neighbours = 16;

/// With fewer frames in memory there are no samples. They would be of too few pages to tell anything; and one that is
/// over its share with a single page would give up just that page, perhaps before the thread that waits for it has seen
/// it.
constexpr std::uint64_t least_frames_to_sample = 32;

/// Under retention, this many followers are mapped and young at least, however little is to pass through.
constexpr std::uint64_t least_young_followers = 4;

/// Under retention: the part of a group's budget, in percent, for pages that only pass through, half of them mapped.
/// Less frees pages that are still being worked on; more leaves less to keep.
constexpr std::uint64_t transient_share_percent = 10;

/// While pages are read ahead they must live until they are used: then this many units in all, or this part of the
/// budget, whichever is less, may pass through.
constexpr std::uint64_t transient_units_with_read_ahead = 4096;
constexpr std::uint64_t transient_share_percent_with_read_ahead = 25;

/// A kept page is given up when it was not touched, while unmapped, for this many times as many fills as there are
/// frames.
constexpr std::uint64_t patience = 16;

/// Under recency, a page that was touched while it was unmapped is not unmapped again the next time that its turn
/// comes, and one that was touched often not the next 3 or 7 times: to find out costs more than memory that is wasted.
constexpr std::uint8_t most_rescues = 3;

/// So many turns pass in one call, at most.
constexpr int most_passed_over = 64;

}  // namespace

Cyclic::Cyclic(const PolicyOptions& options)
    : unmapped_share_percent_(options.unmapped_share_percent == 0 ? default_unmapped_share_percent
                                                                  : options.unmapped_share_percent),
      capacity_units_(options.capacity_units),
      frames_(options.max_frames),
      pages_(options.max_frames) {}

Cyclic::Group Cyclic::group_of(PageKey key) {
  const std::uint64_t hash = hash_of({key.region, key.page / neighbours});
  const std::uint64_t recency_place = hash % neighbours;
  const std::uint64_t retention_place = (recency_place + 1 + (hash >> 8) % (neighbours - 1)) % neighbours;
  const std::uint64_t place = key.page % neighbours;
  return place == recency_place ? recency_sample : place == retention_place ? retention_sample : followers;
}

std::uint64_t Cyclic::mapped_units(Group group) const {
  return frames_.list_units(young(group)) + frames_.list_units(kept(group));
}

std::uint64_t Cyclic::idle_units(Group group) const {
  return frames_.list_units(idle_passing(group)) + frames_.list_units(idle_kept(group));
}

std::uint64_t Cyclic::transient_units(Group group) const {
  std::uint64_t transient = capacity_units_ * transient_share_percent / 100;
  if (fills_since_read_ahead_ < frames_.resident_frames()) {
    transient = std::max(transient, std::min(transient_units_with_read_ahead,
                                             capacity_units_ * transient_share_percent_with_read_ahead / 100));
  }
  return transient * sixteenths[group] / 16;
}

bool Cyclic::retains(Group group) const {
  switch (group) {
    case recency_sample:
      return false;
    case retention_sample:
      return !duel_.challenger_starts_again();
    case followers:
      break;
  }
  return duel_.follow_challenger();
}

bool Cyclic::long_idle(FrameId frame) const {
  return fills_ - pages_[frame].idle_since > patience * frames_.resident_frames();
}

void Cyclic::count_miss(Group group) {
  const std::uint64_t sample_frames = frames_.resident_frames() / 16;
  if (group == recency_sample) {
    duel_.incumbent_missed(sample_frames);
  } else if (group == retention_sample) {
    duel_.challenger_missed(sample_frames);
  }
}

// Read-ahead is counted like faults: on a scan it is what brings most pages.
void Cyclic::filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) {
  const Group group = frames_.resident_frames() < least_frames_to_sample ? followers : group_of(key);
  ++fills_;
  fills_since_read_ahead_ = kind == FillKind::prefetch ? 0 : fills_since_read_ahead_ + 1;
  count_miss(group);
  return_one_refused();
  frames_.enter(frame, units);
  pages_[frame] = {0, group, false, 0, 0};
  frames_.put_young(young(group), frame);
}

void Cyclic::rescued(FrameId frame) {
  if (frames_.resident(frame)) {
    FramePage& page = pages_[frame];
    page.passing = false;
    if (retains(page.group)) {
      return frames_.put_young(kept(page.group), frame);
    }
    page.rescues = std::min<std::uint8_t>(page.rescues + 1, most_rescues);
    page.rounds_left = static_cast<std::uint8_t>((1U << page.rescues) - 1);
    frames_.put_young(young(page.group), frame);
  }
}

void Cyclic::removed(FrameId frame, bool /*evicted*/) {
  frames_.leave(frame);
}

void Cyclic::advised(FrameId frame, Hotness hotness) {
  const Place list = frames_.place(frame);
  if (list < first_list) {
    return;
  }
  const Group group = pages_[frame].group;
  const bool mapped = list != idle_passing(group) && list != idle_kept(group);
  const bool hot = hotness == Hotness::hot;
  pages_[frame].passing = !hot && retains(group);
  if (hot) {
    frames_.put_young(!mapped ? idle_kept(group) : retains(group) ? kept(group) : young(group), frame);
  } else {
    frames_.put_old(!mapped ? idle_passing(group) : retains(group) ? young(group) : kept(group), frame);
  }
}

// What young holds too much of goes on to kept: all of it under recency, under retention only what kept has lost. Each
// page goes once between two fills or rescues.
void Cyclic::settle_young(Group group) {
  const std::uint64_t transient = transient_units(group);
  while (frames_.list_units(young(group)) > transient / 2) {
    const std::uint64_t kept_units = frames_.list_units(kept(group)) + frames_.list_units(idle_kept(group));
    if (retains(group) && kept_units + transient >= share_units(group)) {
      return;
    }
    frames_.put_young(kept(group), frames_.oldest(young(group)));
  }
}

// Under retention, pages pass through while fewer of them are unmapped than mapped, and the last ones filled are left
// alone: they may not have been used yet. Otherwise the oldest kept page goes.
FrameId Cyclic::oldest_mapped(Group group) {
  settle_young(group);
  const std::uint64_t least_young = group == followers ? least_young_followers : 1;
  const std::uint64_t passing_units = frames_.list_units(idle_passing(group));
  const bool passes = retains(group) && frames_.list_frames(young(group)) > least_young &&
                      frames_.list_units(young(group)) > passing_units && passing_units <= transient_units(group) / 2;
  return frames_.oldest(passes || frames_.empty(kept(group)) ? young(group) : kept(group));
}

// Each group gives in proportion: the one that has most mapped for its share.
FrameId Cyclic::next_victim() {
  Group fullest = followers;
  for (const Group group : {recency_sample, retention_sample}) {
    if (mapped_units(group) * sixteenths[fullest] > mapped_units(fullest) * sixteenths[group]) {
      fullest = group;
    }
  }
  FrameId frame = oldest_mapped(fullest);
  const int most_passed = retains(fullest) ? 0 : most_passed_over;
  for (int passed = 0; passed < most_passed && frame != no_frame && pages_[frame].rounds_left > 0; ++passed) {
    --pages_[frame].rounds_left;
    frames_.put_young(kept(fullest), frame);
    frame = oldest_mapped(fullest);
  }
  return frame == no_frame ? frames_.oldest(refused_list) : frame;
}

std::size_t Cyclic::choose_to_unmap(std::span<FrameId> victims) {
  std::size_t chosen = 0;
  while (chosen < victims.size()) {
    const FrameId frame = next_victim();
    if (frame == no_frame) {
      break;
    }
    FramePage& page = pages_[frame];
    page.passing = retains(page.group) && frames_.place(frame) == young(page.group);
    frames_.name(frame);
    victims[chosen] = frame;
    ++chosen;
  }
  return chosen;
}

void Cyclic::unmapped(FrameId frame) {
  FramePage& page = pages_[frame];
  const Place target = page.passing ? idle_passing(page.group) : idle_kept(page.group);
  if (frames_.resident(frame) && frames_.place(frame) != target) {
    page.idle_since = fills_;
    frames_.put_young(target, frame);
  }
}

// In its old queue a pinned page could be the only one of the fullest group, and be named for ever.
void Cyclic::refused(FrameId frame) {
  if (frames_.resident(frame)) {
    frames_.put_young(refused_list, frame);
  }
}

void Cyclic::return_one_refused() {
  const FrameId frame = frames_.oldest(refused_list);
  if (frame != no_frame) {
    const FramePage& page = pages_[frame];
    frames_.put_young(page.passing ? young(page.group) : kept(page.group), frame);
  }
}

// A group that retains, and holds no more than its share and one frame, can wait until the evictors let more pages
// pass.
bool Cyclic::has_spare(Group group) const {
  const FrameId oldest_kept = frames_.oldest(idle_kept(group));
  if (!retains(group) || !frames_.empty(idle_passing(group)) || oldest_kept == no_frame) {
    return idle_units(group) > 0;
  }
  return long_idle(oldest_kept) ||
         mapped_units(group) + idle_units(group) > share_units(group) + frames_.units(oldest_kept);
}

FrameId Cyclic::oldest_idle(Group group) const {
  const FrameId oldest_kept = frames_.oldest(idle_kept(group));
  const FrameId oldest_passing = frames_.oldest(idle_passing(group));
  if (oldest_kept == no_frame || oldest_passing == no_frame) {
    return oldest_kept == no_frame ? oldest_passing : oldest_kept;
  }
  return retains(group) && long_idle(oldest_kept) ? oldest_kept : oldest_passing;
}

// The group that has most in memory for its share, of those that have an unmapped page to spare. Only if none has, a
// page that is being kept goes: what passes through has run out because the evictors are late, not because it is not
// needed.
FrameId Cyclic::choose_to_free() {
  FrameId frame = no_frame;
  std::uint64_t most = 0;
  bool spare = false;
  for (const Group group : {recency_sample, retention_sample, followers}) {
    const std::uint64_t fullness =
        (mapped_units(group) + idle_units(group)) * (sixteenths[followers] / sixteenths[group]);
    const bool better = has_spare(group) == spare ? fullness >= most : has_spare(group);
    if (idle_units(group) > 0 && better) {
      frame = oldest_idle(group);
      most = fullness;
      spare = has_spare(group);
    }
  }
  if (frame != no_frame) {
    frames_.name(frame);
  }
  return frame;
}

}  // namespace tiermap
