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
    std::uint64_t absence = 0;     // cyclic
    bool unmapping = false;        // cyclic
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

}  // namespace tiermap
