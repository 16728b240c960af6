// Each policy once more, written as plainly as can be: queues are deques found by name and searched from end to end,
// pages are remembered in maps. Slow, allocating, and easy to compare with the description in the policy's header.
#pragma once

#include <algorithm>
#include <bit>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cache/eviction_policy.hpp"
#include "cache/policy/page_hash.hpp"

namespace tiermap {

/// Queues by name, old end first, and what is known of every page in memory.
class PlainPolicy : public EvictionPolicy {
 public:
  explicit PlainPolicy(const PolicyOptions& options) : options_(options) {}

  void capacity_changed(std::uint64_t units) override { options_.capacity_units = units; }
  void removed(FrameId frame, bool /*evicted*/) override {
    take(frame);
    pages_.erase(frame);
  }
  std::size_t choose_to_unmap(std::span<FrameId> victims) override {
    for (std::size_t count = 0; count < victims.size(); ++count) {
      victims[count] = victim();
      if (victims[count] == no_frame) {
        return count;
      }
      take(victims[count]);
    }
    return victims.size();
  }
  FrameId choose_to_free() override {
    const FrameId frame = victim_to_free();
    take(frame);
    return frame;
  }
  std::uint32_t unmapped_share_percent() const override { return options_.unmapped_share_percent; }
  std::string_view name() const override { return "plain"; }

 protected:
  struct Page {
    PageKey key;
    std::uint32_t units = 0;
    std::uint64_t faults = 0;      // hot-fifo
    bool hot = false;              // hot-fifo: was promoted. small-main: belongs to main.
    int group = 0;                 // cyclic
    bool passing = false;          // cyclic
    std::uint64_t idle_since = 0;  // cyclic
    int rescues = 0;               // cyclic
    int rounds_left = 0;           // cyclic
  };

  virtual FrameId victim() = 0;
  virtual FrameId victim_to_free() { return oldest("unmapped"); }

  bool resident(FrameId frame) const { return pages_.contains(frame); }
  std::string queue_of(FrameId frame) const {
    for (const auto& [name, queue] : queues_) {
      if (std::find(queue.begin(), queue.end(), frame) != queue.end()) {
        return name;
      }
    }
    return "";
  }
  void take(FrameId frame) {
    for (auto& [name, queue] : queues_) {
      std::erase(queue, frame);
    }
  }
  void add_young(const std::string& queue, FrameId frame) {
    take(frame);
    queues_[queue].push_back(frame);
  }
  void add_old(const std::string& queue, FrameId frame) {
    take(frame);
    queues_[queue].push_front(frame);
  }
  FrameId oldest(const std::string& queue) { return queues_[queue].empty() ? no_frame : queues_[queue].front(); }
  std::uint64_t units_in(const std::string& queue) {
    std::uint64_t sum = 0;
    for (const FrameId frame : queues_[queue]) {
      sum += pages_.at(frame).units;
    }
    return sum;
  }

  PolicyOptions options_;
  std::map<FrameId, Page> pages_;
  std::map<std::string, std::deque<FrameId>> queues_;
};

/// fifo, lru and segmented-fifo.
class PlainQueue final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind /*kind*/) override {
    pages_[frame] = {key, units};
    add_young("mapped", frame);
  }
  void rescued(FrameId frame) override { refused(frame); }
  void refused(FrameId frame) override {
    if (resident(frame)) {
      add_young("mapped", frame);
    }
  }
  void unmapped(FrameId frame) override {
    if (resident(frame) && queue_of(frame) != "unmapped") {
      add_young("unmapped", frame);
    }
  }
  void advised(FrameId frame, Hotness hotness) override {
    if (const std::string queue = queue_of(frame); queue != "") {
      hotness == Hotness::hot ? add_young(queue, frame) : add_old(queue, frame);
    }
  }

 private:
  FrameId victim() override { return oldest("mapped"); }
};

/// hot-fifo. Buckets are found by the page's hash modulo twice the most pages ever in memory, rounded up to a power of
/// two.
class PlainHotFifo final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind /*kind*/) override {
    return_one_refused();
    pages_[frame] = {key, units};
    most_pages_ = std::max(most_pages_, std::bit_ceil(pages_.size()));
    bucket_of_[frame] = hash_of(key) % (most_pages_ * 2);
    pages_[frame].faults = history(frame);
    add_young("primary", frame);
  }
  void rescued(FrameId frame) override {
    if (resident(frame)) {
      ++pages_[frame].faults;
      pages_[frame].hot = false;
      add_young("primary", frame);
    }
  }
  void removed(FrameId frame, bool evicted) override {
    if (resident(frame)) {
      std::uint64_t& past = history(frame);
      past = pages_[frame].faults > past                ? pages_[frame].faults
             : pages_[frame].faults == past && past > 1 ? past - 1
                                                        : past;
    }
    PlainPolicy::removed(frame, evicted);
  }
  void refused(FrameId frame) override {
    if (resident(frame)) {
      add_young("refused", frame);
    }
  }
  void unmapped(FrameId frame) override {
    if (resident(frame) && queue_of(frame) != "unmapped") {
      pages_[frame].hot = false;
      add_young("unmapped", frame);
    }
  }
  void advised(FrameId frame, Hotness hotness) override {
    const std::string queue = queue_of(frame);
    if (queue == "") {
      return;
    }
    if (hotness == Hotness::hot) {
      add_young(queue, frame);
    } else {
      pages_[frame].hot = false;
      pages_[frame].faults = 1;
      add_old(queue == "hot" ? "primary" : queue, frame);
    }
  }

 private:
  std::uint64_t& history(FrameId frame) {
    std::uint64_t& past = histories_[bucket_of_[frame]];
    past = std::max<std::uint64_t>(past, 1);
    return past;
  }
  void return_one_refused() {
    if (const FrameId frame = oldest("refused"); frame != no_frame) {
      add_young(pages_[frame].hot ? "hot" : "primary", frame);
    }
  }
  FrameId victim() override {
    const std::uint64_t most_hot = options_.capacity_units * options_.hot_share_percent / 100;
    std::uint64_t faults = 0;
    for (const auto& [frame, page] : pages_) {
      faults += page.faults;
    }
    for (FrameId frame = oldest("primary"); frame != no_frame; frame = oldest("primary")) {
      if (most_hot == 0 || pages_[frame].faults * pages_.size() <= faults) {
        return frame;
      }
      pages_[frame].hot = true;
      add_young("hot", frame);
      if (units_in("hot") > most_hot) {
        break;
      }
    }
    return oldest("hot") != no_frame ? oldest("hot") : oldest("refused");
  }

  std::size_t most_pages_ = 1;
  std::map<FrameId, std::uint64_t> bucket_of_;
  std::map<std::uint64_t, std::uint64_t> histories_;
};

/// small-main. Evicted pages are remembered four to a set, the first to be evicted making room; sets are found by the
/// page's hash modulo half of the most pages ever in memory, rounded up to a power of two.
class PlainSmallMain final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override {
    if (const FrameId returning = oldest("refused"); returning != no_frame) {
      add_young(home(returning), returning);
    }
    pages_[frame] = {key, units};
    most_pages_ = std::max(most_pages_, std::bit_ceil(pages_.size()));
    std::deque<Ghost>& set = ghosts_of(key);
    const auto ghost = std::find_if(set.begin(), set.end(), [&](const Ghost& known) { return known.key == key; });
    if (ghost != set.end()) {
      pages_[frame].hot = kind == FillKind::fault && evictions_ - ghost->eviction < pages_.size();
      set.erase(ghost);
    }
    add_young(home(frame), frame);
  }
  void rescued(FrameId frame) override {
    if (resident(frame)) {
      pages_[frame].hot = true;
      add_young("main", frame);
    }
  }
  void removed(FrameId frame, bool evicted) override {
    if (evicted && resident(frame) && !pages_[frame].hot) {
      std::deque<Ghost>& set = ghosts_of(pages_[frame].key);
      set.push_back({pages_[frame].key, ++evictions_});
      if (set.size() > 4) {
        set.pop_front();
      }
    }
    PlainPolicy::removed(frame, evicted);
  }
  void refused(FrameId frame) override {
    if (resident(frame)) {
      add_young("refused", frame);
    }
  }
  void unmapped(FrameId frame) override {
    if (resident(frame) && queue_of(frame) != "unmapped") {
      add_young("unmapped", frame);
    }
  }
  void advised(FrameId frame, Hotness hotness) override {
    const std::string queue = queue_of(frame);
    if (queue == "") {
      return;
    }
    pages_[frame].hot = hotness == Hotness::hot;
    const std::string target = queue == "unmapped" ? queue : home(frame);
    hotness == Hotness::hot ? add_young(target, frame) : add_old(target, frame);
  }

 private:
  std::string home(FrameId frame) { return pages_[frame].hot ? "main" : "small"; }
  FrameId victim() override {
    if (oldest("small") != no_frame &&
        (units_in("small") > options_.capacity_units * 10 / 100 || oldest("main") == no_frame)) {
      return oldest("small");
    }
    return oldest("main") != no_frame ? oldest("main") : oldest("refused");
  }

  struct Ghost {
    PageKey key;
    std::uint64_t eviction;
  };
  std::deque<Ghost>& ghosts_of(PageKey key) { return ghosts_[hash_of(key) % (most_pages_ / 2)]; }

  std::size_t most_pages_ = 4;
  std::uint64_t evictions_ = 0;
  std::map<std::uint64_t, std::deque<Ghost>> ghosts_;
};

/// cyclic: three groups (0 recency sample, 1 retention sample, 2 followers), each with queues "young0", "kept0", ...
class PlainCyclic final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override {
    const int group = pages_.size() < 32 ? 2 : group_of(key);
    ++fills_;
    last_read_ahead_ = kind == FillKind::prefetch ? fills_ : last_read_ahead_;
    missed(group);
    if (const FrameId returning = oldest("refused"); returning != no_frame) {
      add_young(in(pages_[returning].passing ? "young" : "kept", pages_[returning].group), returning);
    }
    pages_[frame] = {key, units, 0, false, group};
    add_young(in("young", group), frame);
  }
  void rescued(FrameId frame) override {
    if (resident(frame)) {
      Page& page = pages_[frame];
      page.passing = false;
      if (!retains(page.group)) {
        page.rescues = std::min(page.rescues + 1, 3);
        page.rounds_left = (1 << page.rescues) - 1;
      }
      add_young(in(retains(page.group) ? "kept" : "young", page.group), frame);
    }
  }
  void refused(FrameId frame) override {
    if (resident(frame)) {
      add_young("refused", frame);
    }
  }
  void unmapped(FrameId frame) override {
    if (resident(frame)) {
      const std::string queue = in(pages_[frame].passing ? "idle passing" : "idle kept", pages_[frame].group);
      if (queue_of(frame) != queue) {
        pages_[frame].idle_since = fills_;
        add_young(queue, frame);
      }
    }
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
  static std::uint64_t sixteenths(int group) { return group == 2 ? 14 : 1; }
  static int group_of(PageKey key) {
    const std::uint64_t hash = hash_of({key.region, key.page / 16});
    const std::uint64_t first = hash % 16;
    const std::uint64_t second = (first + 1 + hash / 256 % 15) % 16;
    return key.page % 16 == first ? 0 : key.page % 16 == second ? 1 : 2;
  }
  bool retains(int group) const { return group == 1 ? uncounted_ == 0 : group == 2 && following_; }
  std::uint64_t share(int group) const { return options_.capacity_units * sixteenths(group) / 16; }
  std::uint64_t transient(int group) const {
    const std::uint64_t usual = options_.capacity_units * 10 / 100;
    const std::uint64_t wide = std::min<std::uint64_t>(4096, options_.capacity_units * 25 / 100);
    const bool reads_ahead = last_read_ahead_ > 0 && fills_ - last_read_ahead_ < pages_.size();
    return (reads_ahead ? std::max(usual, wide) : usual) * sixteenths(group) / 16;
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
    const auto sample = static_cast<std::int64_t>(pages_.size() / 16) + 1;
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
    while (units_in(young) > transient(group) / 2 &&
           (!retains(group) || units_in(kept) + units_in(in("idle kept", group)) + transient(group) < share(group))) {
      add_young(kept, oldest(young));
    }
    const std::uint64_t passing = units_in(in("idle passing", group));
    const bool passes = retains(group) && queues_[young].size() > (group == 2 ? 4U : 1U) && units_in(young) > passing &&
                        passing <= transient(group) / 2;
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
      if (mapped_in(group) * sixteenths(fullest) > mapped_in(fullest) * sixteenths(group)) {
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
        const std::uint64_t fullness = (mapped_in(group) + idle_in(group)) * 14 / sixteenths(group);
        if (idle_in(group) > 0 && (!must_spare || spares(group)) && fullness >= most) {
          fullest = group;
          most = fullness;
        }
      }
      if (fullest >= 0) {
        const FrameId kept = oldest(in("idle kept", fullest));
        const FrameId passing = oldest(in("idle passing", fullest));
        return passing == no_frame || (kept != no_frame && retains(fullest) && long_idle(kept)) ? kept : passing;
      }
    }
    return no_frame;
  }

  std::uint64_t fills_ = 0;
  std::uint64_t last_read_ahead_ = 0;
  std::int64_t lead_ = 0;
  std::int64_t since_followed_ = 0;
  std::int64_t uncounted_ = 0;
  std::uint64_t recency_misses_ = 0;
  bool following_ = false;
};

}  // namespace tiermap
