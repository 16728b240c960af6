// How long a page was away, from its eviction until it was wanted again, and how long that may be for a page that is to
// stay. A page that is in memory shows no uses; one that was evicted shows when the next one is. Popular pages are back
// soon.
//
// What counts is the order of pages, not the length itself. So the limit moves until one page of so many that are
// filled is under it: whatever the program does, those with the shortest absences stay, and no more of them than that.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace tiermap {

/// 1 + four times the binary logarithm of evictions meanwhile; 0 if it is not known.
using Absence = std::uint8_t;
inline constexpr Absence longest_absence = 127;

/// Rounded down, and between powers of two on a straight line.
constexpr Absence absence_of(std::uint64_t evictions) noexcept {
  const std::uint64_t value = evictions + 1;
  const auto power = static_cast<unsigned>(std::bit_width(value)) - 1;
  const std::uint64_t quarters = power >= 2 ? value >> (power - 2) & 3U : value << (2 - power) & 3U;
  return static_cast<Absence>(std::min<std::uint64_t>(1 + 4 * std::uint64_t{power} + quarters, longest_absence));
}

/// One that was away once may have been so by chance: it counts as away for four times as long.
inline constexpr Absence first_absence_counts_for = 8;

/// What is thought of a page that was away before: half of it is what was thought then.
constexpr Absence absence_after(Absence before, Absence now) noexcept {
  return before == 0 ? static_cast<Absence>(std::min(now + first_absence_counts_for, int{longest_absence}))
                     : static_cast<Absence>((before + now + 1) / 2);
}

/// Not thread-safe; never allocates or throws.
class AbsenceLimit {
 public:
  /// Whether a page may stay that was away for `now`, and of which `absence` is thought; to be asked of each page that
  /// is filled.
  bool allows(Absence absence, Absence now) noexcept {
    limit_ = std::min(limit_ + limit_up, std::int32_t{longest_absence} * parts);
    if (absence == 0) {
      return false;
    }
    mean_ += (now * parts - mean_) / parts;
    if (absence * parts > std::min(limit_, mean_ - least_difference * parts)) {
      return false;
    }
    limit_ -= limit_up * one_in;
    return true;
  }

 private:
  static constexpr std::int32_t parts = 256;  ///< Of one step.
  static constexpr std::int32_t one_in = 16;
  static constexpr std::int32_t limit_up = 4;
  /// Pages that are away for about as long as all others have no right to be kept instead of them: so it is in a scan.
  static constexpr std::int32_t least_difference = 2;

  std::int32_t limit_ = 40 * parts;
  std::int32_t mean_ = 40 * parts;
};

}  // namespace tiermap
