#include "tier/block_score.hpp"

#include <algorithm>

namespace tiermap {
namespace {

constexpr double touch_worth = 0.125;
constexpr double most_by_touches = 0.5;
constexpr double most_half_lives = 60;

double age(const BlockScore& score, std::uint32_t now) noexcept {
  return static_cast<double>(now - score.at);
}

/// Halves with each half-life, and falls in a straight line in between: exp2() would make libm a part of every program.
double faded(double half_lives) noexcept {
  const double whole = std::min(half_lives, most_half_lives);
  const auto times = static_cast<std::uint64_t>(whole);
  return (1 - (whole - static_cast<double>(times)) / 2) / static_cast<double>(std::uint64_t{1} << times);
}

}  // namespace

double score_now(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  return score.value == 0 ? 0 : score.value * faded(age(score, now) / times.half_life_milliseconds);
}

bool is_said(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  return score.sharer != 0 && age(score, now) < times.half_life_milliseconds;
}

void set_score(BlockScore& score, double value, std::uint64_t sharer, std::uint32_t now,
               const ScoreTimes& times) noexcept {
  const bool anothers = score.sharer != 0 && score.sharer != sharer;
  if (anothers && value < score.value && age(score, now) < times.window_milliseconds) {
    return;
  }
  score = {static_cast<float>(std::clamp(value, 0.0, 1.0)), now, sharer};
}

void touch_score(BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  if (is_said(score, now, times)) {
    return;  // Such as the write of a page that its reader has done with.
  }
  const double before = score_now(score, now, times);
  if (before < most_by_touches) {
    score = {static_cast<float>(std::min(before + touch_worth, most_by_touches)), now, 0};
  }
}

}  // namespace tiermap
