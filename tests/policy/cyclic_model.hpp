// A plain model of `cyclic`, for the test that compares its victims: slow, and as its description says.
#pragma once

#include "policy/reference_models.hpp"

namespace tiermap {

/// cyclic: three groups (0 recency sample, 1 retention sample, 2 followers), each with queues "young0", "kept0", ...
/// Evicted pages are remembered as by small-main.
class PlainCyclic final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override {
    mean_units_ = (units_of_all() + units) / (pages_.size() + 1);
    const std::uint64_t room = options_.capacity_units / std::max<std::uint64_t>(mean_units_, 1);
    sampled_ = room >= 24;
    while (neighbours_ > 4 && room < 32 * neighbours_) {
      neighbours_ /= 2;
    }
    while (neighbours_ < 16 && room >= 80 * neighbours_) {
      neighbours_ *= 2;
    }
    const int group = sampled_ ? group_of(key) : 2;
    ++fills_;
    last_read_ahead_ = kind == FillKind::prefetch ? fills_ : last_read_ahead_;
    missed(group);
    if (const FrameId returning = oldest("refused"); returning != no_frame) {
      add_young(in(pages_[returning].passing ? "young" : "kept", pages_[returning].group), returning);
    }
    pages_[frame] = {key, units, 0, false, group};
    const std::uint64_t now = recall(key, pages_[frame].absence);
    const bool stays = kind == FillKind::fault && retains(group) && stays_instead(group, pages_[frame].absence, now);
    add_young(in(stays ? "kept" : "young", group), frame);
  }
  void rescued(FrameId frame) override {
    if (resident(frame)) {
      Page& page = pages_[frame];
      page.passing = page.unmapping = false;
      if (!retains(page.group)) {
        page.rescues = std::min(page.rescues + 1, 3);
        page.rounds_left = (1 << page.rescues) - 1;
      }
      add_young(in(retains(page.group) ? "kept" : "young", page.group), frame);
    }
  }
  void removed(FrameId frame, bool evicted) override {
    if (evicted && resident(frame)) {
      std::deque<Ghost>& set = ghosts_of(pages_[frame].key);
      set.push_back({pages_[frame].key, ++evictions_, pages_[frame].absence});
      if (set.size() > 4) {
        set.pop_front();
      }
      unmapped_since_drop_ = pages_[frame].unmapping ? 0 : unmapped_since_drop_;
    }
    PlainPolicy::removed(frame, evicted);
  }
  void refused(FrameId frame) override {
    if (resident(frame)) {
      pages_[frame].unmapping = false;
      add_young("refused", frame);
    }
  }
  void unmapped(FrameId frame) override {
    if (resident(frame)) {
      pages_[frame].unmapping = false;
      unmapped_since_drop_ = std::min(unmapped_since_drop_ + 1, 128);
      const std::string queue = in(pages_[frame].passing ? "idle passing" : "idle kept", pages_[frame].group);
      if (queue_of(frame) != queue) {
        pages_[frame].idle_since = fills_;
        add_young(queue, frame);
      }
    }
  }
  void capacity_changed(std::uint64_t units) override {
    PlainPolicy::capacity_changed(units);
    resting_ = units;
  }
  std::size_t choose_to_unmap(std::span<FrameId> victims) override {
    if (unmapped_since_drop_ == 128) {
      resting_ = options_.capacity_units;
    } else {
      const std::uint64_t held = units_of_all() - idle_in(0) - idle_in(1) - idle_in(2);
      const bool rises = ++calls_ % 64 == 0;
      resting_ = std::min(held, resting_ + (rises ? held / std::max<std::uint64_t>(pages_.size(), 1) : 0));
    }
    const std::size_t chosen = PlainPolicy::choose_to_unmap(victims);
    for (const FrameId frame : victims.first(chosen)) {
      pages_[frame].unmapping = true;
    }
    return chosen;
  }
  void advised(FrameId frame, Hotness hotness) override {
    const std::string queue = queue_of(frame);
    if (queue == "") {
      return;
    }
    const int group = pages_[frame].group;
    const bool idle = queue.starts_with("idle");
    pages_[frame].passing = hotness == Hotness::cold && retains(group);
    if (hotness == Hotness::hot) {
      add_young(in(idle ? "idle kept" : retains(group) ? "kept" : "young", group), frame);
    } else {
      add_old(in(idle ? "idle passing" : retains(group) ? "young" : "kept", group), frame);
    }
  }

 private:
  static std::string in(const std::string& queue, int group) { return queue + std::to_string(group); }
  struct Ghost {
    PageKey key;
    std::uint64_t eviction;
    std::uint64_t absence;
  };
  std::deque<Ghost>& ghosts_of(PageKey key) { return ghosts_[hash_of(key) % (most_pages_ / 2)]; }
  std::uint64_t recall(PageKey key, std::uint64_t& thought) {
    most_pages_ = std::max(most_pages_, std::bit_ceil(pages_.size()));
    std::deque<Ghost>& set = ghosts_of(key);
    const auto ghost = std::find_if(set.begin(), set.end(), [&](const Ghost& known) { return known.key == key; });
    if (ghost == set.end()) {
      return 0;
    }
    const std::uint64_t away = evictions_ - ghost->eviction + 1;
    const std::uint64_t power = std::bit_floor(away);
    const std::uint64_t now = 1 + 4 * static_cast<std::uint64_t>(std::countr_zero(power)) + (away - power) * 4 / power;
    thought = ghost->absence == 0 ? now + 8 : (ghost->absence + now + 1) / 2;
    set.erase(ghost);
    return now;
  }
  bool stays_instead(int group, std::uint64_t absence, std::uint64_t now) {
    limit_ = std::min(limit_ + 4, 127 * 256);
    if (absence == 0) {
      return false;
    }
    const int parts_away = 256 * static_cast<int>(absence);
    mean_ += (256 * static_cast<int>(now) - mean_) / 256;
    const bool allowed = parts_away <= limit_ && parts_away <= mean_ - 2 * 256;
    limit_ -= allowed ? 64 : 0;
    return allowed && kept_in(group) >= most_kept(group) / 8 * 7;
  }
  std::uint64_t units_of_all() const {
    std::uint64_t sum = 0;
    for (const auto& [frame, page] : pages_) {
      sum += page.units;
    }
    return sum;
  }
  std::uint64_t parts(int group) const { return group == 2 ? neighbours_ - 2 : 1; }
  int group_of(PageKey key) const {
    const std::uint64_t hash = hash_of({key.region, key.page / neighbours_});
    const std::uint64_t first = hash % neighbours_;
    const std::uint64_t second = (first + 1 + hash / 256 % (neighbours_ - 1)) % neighbours_;
    return key.page % neighbours_ == first ? 0 : key.page % neighbours_ == second ? 1 : 2;
  }
  bool retains(int group) const { return group == 1 ? uncounted_ == 0 : group == 2 && sampled_ && following_; }
  std::uint64_t share(int group) const { return options_.capacity_units * parts(group) / neighbours_; }
  std::uint64_t kept_in(int group) { return units_in(in("kept", group)) + units_in(in("idle kept", group)); }
  std::uint64_t most_kept(int group) const {
    const std::uint64_t resting = std::min(options_.capacity_units, resting_) * parts(group) / neighbours_;
    return resting - std::min(resting, transient(group));
  }
  bool keeps_too_much(int group) { return retains(group) && kept_in(group) > most_kept(group) + most_kept(group) / 64; }
  std::uint64_t transient(int group) const {
    const std::uint64_t usual = options_.capacity_units * 10 / 100;
    const std::uint64_t wide = std::min<std::uint64_t>(4096, options_.capacity_units * 25 / 100);
    const bool reads_ahead = last_read_ahead_ > 0 && fills_ - last_read_ahead_ < pages_.size();
    return std::max((reads_ahead ? std::max(usual, wide) : usual) * parts(group) / neighbours_,
                    (group == 2 ? 5 : 2) * mean_units_);
  }
  std::uint64_t mapped_in(int group) { return units_in(in("young", group)) + units_in(in("kept", group)); }
  std::uint64_t idle_in(int group) { return units_in(in("idle passing", group)) + units_in(in("idle kept", group)); }

  void missed(int group) {
    if (group == 2) {
      return;
    }
    if (uncounted_ > 0) {
      uncounted_ -= group;
      return;
    }
    if (group == 0) {
      ++lead_;
      if (++recency_misses_ % 32 == 0 && lead_ != 0) {
        lead_ -= lead_ > 0 ? 1 : -1;
      }
    } else {
      --lead_;
      ++since_followed_;
    }
    const auto sample = static_cast<std::int64_t>(pages_.size() / neighbours_) + 1;
    const std::int64_t most = std::max<std::int64_t>(16, sample / 2);
    lead_ = std::max(-most, std::min(most, lead_));
    following_ = lead_ >= std::max<std::int64_t>(4, sample * 2 / 5) || (following_ && lead_ > 0);
    since_followed_ = following_ ? 0 : since_followed_;
    if (lead_ == -most || since_followed_ > 6 * sample) {
      uncounted_ = sample;
      since_followed_ = 0;
      lead_ = std::max(lead_, -most / 2);
    }
  }
  FrameId victim_in(int group) {
    const std::string young = in("young", group);
    const std::string kept = in("kept", group);
    while (units_in(young) > transient(group) / 2 && (!retains(group) || kept_in(group) < most_kept(group))) {
      add_young(kept, oldest(young));
    }
    const std::uint64_t passing = units_in(in("idle passing", group));
    const bool few_unmapped = units_in(young) > passing && passing <= transient(group) / 2;
    const bool passes = retains(group) && !keeps_too_much(group) && queues_[young].size() > (group == 2 ? 4U : 1U) &&
                        (few_unmapped || unmapped_since_drop_ < 128);
    const bool from_young = passes || queues_[kept].empty();
    const FrameId frame = oldest(from_young ? young : kept);
    if (frame != no_frame) {
      pages_[frame].passing = from_young && retains(group);
    }
    return frame;
  }
  FrameId victim() override {
    int fullest = 2;
    for (const int group : {0, 1}) {
      if (mapped_in(group) * parts(fullest) > mapped_in(fullest) * parts(group)) {
        fullest = group;
      }
    }
    FrameId frame = victim_in(fullest);
    for (int passed = 0; passed < 64 && frame != no_frame && !retains(fullest) && pages_[frame].rounds_left > 0;
         ++passed) {
      --pages_[frame].rounds_left;
      add_young(in("kept", fullest), frame);
      frame = victim_in(fullest);
    }
    if (frame == no_frame && oldest("refused") != no_frame) {
      frame = oldest("refused");
      pages_[frame].passing = false;
    }
    return frame;
  }
  bool long_idle(FrameId frame) { return fills_ - pages_[frame].idle_since > 16 * pages_.size(); }
  bool spares(int group) {
    const FrameId kept = oldest(in("idle kept", group));
    if (retains(group) && oldest(in("idle passing", group)) == no_frame && kept != no_frame) {
      return long_idle(kept) || mapped_in(group) + idle_in(group) > share(group) + pages_[kept].units;
    }
    return idle_in(group) > 0;
  }
  FrameId victim_to_free() override {
    for (const bool must_spare : {true, false}) {
      int fullest = -1;
      std::uint64_t most = 0;
      for (const int group : {0, 1, 2}) {
        const std::uint64_t fullness = (mapped_in(group) + idle_in(group)) * parts(2) / parts(group);
        if (idle_in(group) > 0 && (!must_spare || spares(group)) && fullness >= most) {
          fullest = group;
          most = fullness;
        }
      }
      if (fullest >= 0) {
        const FrameId kept = oldest(in("idle kept", fullest));
        const FrameId passing = oldest(in("idle passing", fullest));
        const bool kept_first = kept != no_frame && (keeps_too_much(fullest) || (retains(fullest) && long_idle(kept)));
        return passing == no_frame || kept_first ? kept : passing;
      }
    }
    return no_frame;
  }

  bool sampled_ = false;
  std::uint64_t mean_units_ = 0;
  std::uint64_t neighbours_ = 16;
  std::uint64_t resting_ = options_.capacity_units;
  std::uint32_t calls_ = 0;
  int unmapped_since_drop_ = 128;
  int limit_ = 40 * 256;
  int mean_ = 40 * 256;
  std::size_t most_pages_ = 4;
  std::uint64_t evictions_ = 0;
  std::map<std::uint64_t, std::deque<Ghost>> ghosts_;
  std::uint64_t fills_ = 0;
  std::uint64_t last_read_ahead_ = 0;
  std::int64_t lead_ = 0;
  std::int64_t since_followed_ = 0;
  std::int64_t uncounted_ = 0;
  std::uint64_t recency_misses_ = 0;
  bool following_ = false;
};

}  // namespace tiermap
