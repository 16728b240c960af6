#include "cache/policy/cyclic.hpp"

#include <algorithm>
#include <bit>
#include <optional>

#include "cache/policy/page_hash.hpp"

namespace tiermap {

namespace {

/// A sample of this many frames tells what to do. Where memory has room for fewer than sixteen times as many, the
/// samples are a larger part of it: an eighth each, or a quarter.
constexpr std::uint64_t frames_of_sample = 32;
constexpr std::uint64_t fewest_neighbours = 4;
constexpr std::uint64_t most_neighbours = 16;

/// With room for fewer frames there are no samples. One that is over its share with a single page would give up just
/// that page, perhaps before the thread that waits for it has seen it.
constexpr std::uint64_t least_frames_to_sample = 24;

/// Under retention, this many pages of a group are mapped and young at least, however little is to pass through.
constexpr std::uint64_t least_young_followers = 4;
constexpr std::uint64_t least_young_of_sample = 1;
constexpr std::uint64_t least_young(Cyclic::Group group) {
  return group == Cyclic::followers ? least_young_followers : least_young_of_sample;
}

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

/// What the engine leaves in memory when it drops pages is the least seen lately: it rises by a frame in so many
/// victims.
constexpr std::uint32_t victims_per_frame_of_rise = 64;

}  // namespace

Cyclic::Cyclic(const PolicyOptions& options)
    : unmapped_share_percent_(options.unmapped_share_percent == 0 ? default_unmapped_share_percent
                                                                  : options.unmapped_share_percent),
      capacity_units_(options.capacity_units),
      resting_units_(options.capacity_units),
      ghosts_(options.max_frames),
      frames_(options.max_frames),
      pages_(options.max_frames) {}

void Cyclic::capacity_changed(std::uint64_t capacity_units) {
  capacity_units_ = resting_units_ = capacity_units;
}

Cyclic::Group Cyclic::group_of(PageKey key, std::uint64_t neighbours) {
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

// By the room there is for pages of the size that most have at present, these and one of so many units. What is in
// memory stays in the group that it came into.
void Cyclic::choose_samples(std::uint32_t units) {
  frame_units_ = (frames_.resident_units() + units) / (frames_.resident_frames() + 1);
  const std::uint64_t room = capacity_units_ / std::max<std::uint64_t>(frame_units_, 1);
  sampled_ = room >= least_frames_to_sample;
  while (neighbours_ > fewest_neighbours && room < neighbours_ * frames_of_sample) {
    neighbours_ /= 2;
  }
  while (neighbours_ < most_neighbours && room >= 2 * neighbours_ * frames_of_sample * 5 / 4) {
    neighbours_ *= 2;
  }
}

std::uint64_t Cyclic::kept_units(Group group) const {
  return frames_.list_units(kept(group)) + frames_.list_units(idle_kept(group));
}

std::uint64_t Cyclic::most_kept_units(Group group) const {
  const std::uint64_t share = std::min(capacity_units_, resting_units_) * parts(group) / neighbours_;
  return share - std::min(share, transient_units(group));
}

bool Cyclic::keeps_too_much(Group group) const {
  const std::uint64_t most = most_kept_units(group);
  return retains(group) && kept_units(group) > most + most / 64;
}

std::uint64_t Cyclic::transient_units(Group group) const {
  std::uint64_t transient = capacity_units_ * transient_share_percent / 100;
  if (fills_since_read_ahead_ < frames_.resident_frames()) {
    transient = std::max(transient, std::min(transient_units_with_read_ahead,
                                             capacity_units_ * transient_share_percent_with_read_ahead / 100));
  }
  return std::max(transient * parts(group) / neighbours_, (least_young(group) + 1) * frame_units_);
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
  return sampled_ && duel_.follow_challenger();
}

bool Cyclic::long_idle(FrameId frame) const {
  return fills_ - pages_[frame].idle_since > patience * frames_.resident_frames();
}

void Cyclic::count_miss(Group group) {
  const std::uint64_t sample_frames = frames_.resident_frames() / neighbours_;
  if (group == recency_sample) {
    duel_.incumbent_missed(sample_frames);
  } else if (group == retention_sample) {
    duel_.challenger_missed(sample_frames);
  }
}

// Read-ahead is counted like faults: on a scan it is what brings most pages.
void Cyclic::filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) {
  choose_samples(units);
  const Group group = sampled_ ? group_of(key, neighbours_) : followers;
  ++fills_;
  fills_since_read_ahead_ = kind == FillKind::prefetch ? 0 : fills_since_read_ahead_ + 1;
  count_miss(group);
  return_one_refused();
  frames_.enter(frame, units);
  const std::uint64_t hash = hash_of(key);
  const std::optional<GhostTable::Remembered> remembered = recall(hash);
  const Absence now = remembered ? absence_of(remembered->evictions_since) : Absence{0};
  const Absence absence = remembered ? absence_after(remembered->note, now) : Absence{0};
  pages_[frame] = {hash, 0, group, absence, false, false, 0, 0};
  const bool stays = kind == FillKind::fault && retains(group) && takes_place_of_kept(group, absence, now);
  frames_.put_young(stays ? kept(group) : young(group), frame);
}

std::optional<GhostTable::Remembered> Cyclic::recall(std::uint64_t hash) {
  if (frames_.resident_frames() > most_resident_frames_) {
    most_resident_frames_ = std::bit_ceil(frames_.resident_frames());
    ghosts_.limit(most_resident_frames_);
  }
  return ghosts_.take(hash);
}

// While there is room for more that is kept, pages that pass come to stay without being asked.
bool Cyclic::takes_place_of_kept(Group group, Absence absence, Absence now) {
  const bool full = kept_units(group) >= most_kept_units(group) / 8 * 7;
  return absence_limit_.allows(absence, now) && full;
}

void Cyclic::rescued(FrameId frame) {
  if (frames_.resident(frame)) {
    FramePage& page = pages_[frame];
    page.passing = page.unmapping = false;
    if (retains(page.group)) {
      return frames_.put_young(kept(page.group), frame);
    }
    page.rescues = std::min<std::uint8_t>(page.rescues + 1, most_rescues);
    page.rounds_left = static_cast<std::uint8_t>((1U << page.rescues) - 1);
    frames_.put_young(young(page.group), frame);
  }
}

void Cyclic::removed(FrameId frame, bool evicted) {
  if (evicted && frames_.resident(frame)) {
    const FramePage& page = pages_[frame];
    ghosts_.insert(page.hash, page.absence);
    unmapped_since_drop_ = page.unmapping ? 0 : unmapped_since_drop_;
  }
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
    if (retains(group) && kept_units(group) >= most_kept_units(group)) {
      return;
    }
    frames_.put_young(kept(group), frames_.oldest(young(group)));
  }
}

// Under retention, pages pass through while fewer of them are unmapped than mapped, and the last ones filled are left
// alone: they may not have been used yet. Otherwise the oldest kept page goes. It is the one to go too if more are kept
// than there is room for; and where pages are dropped nothing is gained by giving up one to see whether it is used.
FrameId Cyclic::oldest_mapped(Group group) {
  settle_young(group);
  const std::uint64_t passing_units = frames_.list_units(idle_passing(group));
  const bool few_unmapped =
      frames_.list_units(young(group)) > passing_units && passing_units <= transient_units(group) / 2;
  const bool passes = retains(group) && !keeps_too_much(group) &&
                      frames_.list_frames(young(group)) > least_young(group) && (few_unmapped || drops());
  return frames_.oldest(passes || frames_.empty(kept(group)) ? young(group) : kept(group));
}

// Each group gives in proportion: the one that has most mapped for its share.
FrameId Cyclic::next_victim() {
  Group fullest = followers;
  for (const Group group : {recency_sample, retention_sample}) {
    if (mapped_units(group) * parts(fullest) > mapped_units(fullest) * parts(group)) {
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

// Where pages are dropped, memory is never full: what is kept must leave room for those that pass.
void Cyclic::note_rest() {
  if (!drops()) {
    resting_units_ = capacity_units_;
    return;
  }
  std::uint64_t held = frames_.resident_units();
  for (const Group group : {recency_sample, retention_sample, followers}) {
    held -= idle_units(group);
  }
  if (++victims_ % victims_per_frame_of_rise == 0) {
    resting_units_ += held / std::max<std::uint64_t>(frames_.resident_frames(), 1);
  }
  resting_units_ = std::min(resting_units_, held);
}

std::size_t Cyclic::choose_to_unmap(std::span<FrameId> victims) {
  note_rest();
  std::size_t chosen = 0;
  while (chosen < victims.size()) {
    const FrameId frame = next_victim();
    if (frame == no_frame) {
      break;
    }
    FramePage& page = pages_[frame];
    page.unmapping = true;
    page.passing = retains(page.group) && frames_.place(frame) == young(page.group);
    frames_.name(frame);
    victims[chosen] = frame;
    ++chosen;
  }
  return chosen;
}

void Cyclic::unmapped(FrameId frame) {
  FramePage& page = pages_[frame];
  page.unmapping = false;
  unmapped_since_drop_ = std::min(unmapped_since_drop_ + 1, most_unmapped_between_drops);
  const Place target = page.passing ? idle_passing(page.group) : idle_kept(page.group);
  if (frames_.resident(frame) && frames_.place(frame) != target) {
    page.idle_since = fills_;
    frames_.put_young(target, frame);
  }
}

// In its old queue a pinned page could be the only one of the fullest group, and be named for ever.
void Cyclic::refused(FrameId frame) {
  if (frames_.resident(frame)) {
    pages_[frame].unmapping = false;
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
  return keeps_too_much(group) || (retains(group) && long_idle(oldest_kept)) ? oldest_kept : oldest_passing;
}

// The group that has most in memory for its share, of those that have an unmapped page to spare. Only if none has, a
// page that is being kept goes: what passes through has run out because the evictors are late, not because it is not
// needed.
FrameId Cyclic::choose_to_free() {
  FrameId frame = no_frame;
  std::uint64_t most = 0;
  bool spare = false;
  for (const Group group : {recency_sample, retention_sample, followers}) {
    const std::uint64_t fullness = (mapped_units(group) + idle_units(group)) * (parts(followers) / parts(group));
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
