// Decides between two rules by their misses on two samples of the pages that have equal shares of the memory: the
// incumbent's sample and the challenger's. The challenger must be ahead by a good part of a sample to be followed, and
// is dropped as soon as it is not ahead at all.
//
// What the challenger keeps may be of no use any more, only because it was chosen long ago. So a challenger that has
// lost much, or has not won for long, starts again: for a while its sample is to be paged by the incumbent's rule,
// uncounted.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tiermap {

/// Not thread-safe; never allocates or throws. All thresholds are in misses, relative to the frames of one sample.
class RuleDuel {
 public:
  /// Whether the pages outside the samples should follow the challenger.
  bool follow_challenger() const noexcept { return following_; }
  /// Whether the challenger's own sample is to be paged by the incumbent's rule at present.
  bool challenger_starts_again() const noexcept { return uncounted_misses_ > 0; }

  void incumbent_missed(std::uint64_t sample_frames) noexcept {
    if (challenger_starts_again()) {
      return;
    }
    ++advantage_;
    // Misses alike let the advantage, either way, be forgotten.
    if (++incumbent_misses_ % misses_per_step_back == 0) {
      advantage_ -= advantage_ > 0 ? 1 : advantage_ < 0 ? -1 : 0;
    }
    judge(sample_frames);
  }
  void challenger_missed(std::uint64_t sample_frames) noexcept {
    if (challenger_starts_again()) {
      --uncounted_misses_;
      return;
    }
    --advantage_;
    ++misses_since_followed_;
    judge(sample_frames);
  }

 private:
  static constexpr std::uint32_t misses_per_step_back = 32;
  /// A scan of more than about this many times the memory is not recognised: the challenger starts again before it is
  /// over.
  static constexpr std::int64_t samples_missed_before_restart = 6;

  void judge(std::uint64_t sample_frames) noexcept {
    const auto sample = static_cast<std::int64_t>(sample_frames) + 1;
    const std::int64_t most = std::max<std::int64_t>(sample / 2, 16);
    advantage_ = std::clamp(advantage_, -most, most);
    if (advantage_ >= std::max<std::int64_t>(sample * 2 / 5, 4)) {
      following_ = true;
    } else if (advantage_ <= 0) {
      following_ = false;
    }
    if (following_) {
      misses_since_followed_ = 0;
    }
    if (advantage_ == -most || misses_since_followed_ > samples_missed_before_restart * sample) {
      uncounted_misses_ = sample;
      misses_since_followed_ = 0;
      advantage_ = std::max(advantage_, -most / 2);
    }
  }

  std::int64_t advantage_ = 0;  ///< Misses of the incumbent less those of the challenger, within limits.
  std::int64_t misses_since_followed_ = 0;
  std::int64_t uncounted_misses_ = 0;
  std::uint32_t incumbent_misses_ = 0;
  bool following_ = false;
};

}  // namespace tiermap
