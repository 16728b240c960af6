// How much a rank wants of each stripe of a shared data set: what its place is chosen by.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace tiermap {

/// In bytes: what came from its home and what went there, and what transactions have scored, times the score.
/// Counted by any thread.
class WantedStripes {
 public:
  WantedStripes(std::uint64_t bytes, std::uint64_t stripe_bytes)
      : stripe_bytes_(stripe_bytes), wanted_((bytes + stripe_bytes - 1) / stripe_bytes) {}

  std::uint64_t stripes() const noexcept { return wanted_.size(); }
  void add(std::uint64_t offset, std::uint64_t bytes, double weight = 1) noexcept {
    const std::uint64_t end = std::min(offset + bytes, wanted_.size() * stripe_bytes_);
    while (offset < end) {
      const std::uint64_t here = std::min(end - offset, stripe_bytes_ - offset % stripe_bytes_);
      wanted_[offset / stripe_bytes_].fetch_add(static_cast<std::uint64_t>(static_cast<double>(here) * weight),
                                                std::memory_order_relaxed);
      offset += here;
    }
  }
  void forget() noexcept {
    for (std::atomic<std::uint64_t>& one : wanted_) {
      one.store(0, std::memory_order_relaxed);
    }
  }

  /// For the other ranks: runs of stripes that are wanted as much, without those that are not.
  std::string text() const {
    std::vector<Run> runs;
    for (std::uint64_t stripe = 0; stripe < wanted_.size(); ++stripe) {
      const std::uint64_t wanted = wanted_[stripe].load(std::memory_order_relaxed);
      if (wanted == 0) {
        continue;
      }
      if (!runs.empty() && runs.back().first + runs.back().count == stripe && runs.back().wanted == wanted) {
        ++runs.back().count;
      } else {
        runs.push_back({static_cast<std::uint32_t>(stripe), 1, wanted});
      }
    }
    return {reinterpret_cast<const char*>(runs.data()), runs.size() * sizeof(Run)};
  }
  /// Calls `add(stripe, wanted)` for what another rank's text says. False for what is no such text.
  template <typename Add>
  bool read(std::string_view text, const Add& add) const {
    for (; text.size() >= sizeof(Run); text.remove_prefix(sizeof(Run))) {
      Run run;
      std::memcpy(&run, text.data(), sizeof(run));
      if (run.first > stripes() || run.count > stripes() - run.first) {
        return false;
      }
      for (std::uint64_t stripe = run.first; stripe < run.first + std::uint64_t{run.count}; ++stripe) {
        add(stripe, run.wanted);
      }
    }
    return text.empty();
  }

 private:
  struct Run {
    std::uint32_t first;
    std::uint32_t count;
    std::uint64_t wanted;
  };

  const std::uint64_t stripe_bytes_;
  std::vector<std::atomic<std::uint64_t>> wanted_;
};

}  // namespace tiermap
