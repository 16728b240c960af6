// How much it is worth to have a block in a fast place, from 0 to 1.
#pragma once

#include <cstdint>

namespace tiermap {

/// What one sharer said of a block, or, of one of which nobody says anything, what was done with it. Times are
/// milliseconds since the store was opened; after 49 days they begin anew, and scores are odd for once.
struct SaidScore {
  float value = 0;  ///< As it was at `at`.
  std::uint32_t at = 0;
  std::uint64_t sharer = 0;  ///< Whose it is; 0: nobody said anything.
};

/// What sharers said of a block (MegaMmap, section III.C): the highest, and the highest of anybody else than who said
/// that one: it holds when he takes his back. Of three or more who take theirs back within the window the lowest may be
/// missed.
struct BlockScore {
  SaidScore best;
  SaidScore next;
};

struct ScoreTimes {
  double window_milliseconds = 1000;
  double half_life_milliseconds = 30'000;
};

/// What it is worth now.
double score_now(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept;

/// Somebody said something of late, which rules.
bool is_said(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept;

/// `sharer` says so. Within the window the highest of several sharers' scores holds; what one said himself, he may take
/// back.
void set_score(BlockScore& score, double value, std::uint64_t sharer, std::uint32_t now,
               const ScoreTimes& times) noexcept;

/// What a block can be worth by being read and written.
inline constexpr double most_by_touches = 0.5;

/// It was read or written: worth more than what was not, but never as much as what somebody says he needs; and nothing
/// where somebody said something of late.
void touch_score(BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept;

}  // namespace tiermap
