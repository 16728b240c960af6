// How long single accesses took, in buckets fine enough for percentiles.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tiermap {

/// Sixteen buckets for each power of two: a percentile is right to 6 %. Plain data: it can lie in memory that processes
/// share.
class LatencyCounts {
 public:
  void add(std::uint64_t nanoseconds) noexcept { ++counts_[bucket_of(nanoseconds)]; }
  void add(const LatencyCounts& other) noexcept {
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      counts_[bucket] += other.counts_[bucket];
    }
  }
  /// What a share (above 0, up to 1) of the accesses did not exceed, to the upper end of its bucket; 0 if there are
  /// none.
  std::uint64_t quantile_nanoseconds(double share) const noexcept {
    std::uint64_t total = 0;
    for (const std::uint64_t count : counts_) {
      total += count;
    }
    const double wanted = share * static_cast<double>(total);
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
      seen += counts_[bucket];
      if (seen > 0 && static_cast<double>(seen) >= wanted) {
        return end_of(bucket);
      }
    }
    return 0;
  }

 private:
  static constexpr unsigned fine_bits = 4;
  static constexpr std::size_t fine = std::size_t{1} << fine_bits;

  static std::size_t bucket_of(std::uint64_t nanoseconds) noexcept {
    if (nanoseconds < fine) {
      return static_cast<std::size_t>(nanoseconds);
    }
    const unsigned shift = static_cast<unsigned>(std::bit_width(nanoseconds)) - fine_bits - 1;
    return (shift + 1) * fine + ((nanoseconds >> shift) & (fine - 1));
  }
  static std::uint64_t end_of(std::size_t bucket) noexcept {
    if (bucket < fine) {
      return bucket;
    }
    const std::size_t shift = bucket / fine - 1;
    return ((fine + bucket % fine + 1) << shift) - 1;
  }

  std::array<std::uint64_t, (64 - fine_bits + 1) * fine> counts_{};
};

}  // namespace tiermap
