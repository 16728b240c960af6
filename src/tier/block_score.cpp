#include "tier/block_score.hpp"

#include <algorithm>
#include <utility>

namespace tiermap {
namespace {

constexpr double touch_worth = 0.125;
constexpr double most_half_lives = 60;

double age(const SaidScore& said, std::uint32_t now) noexcept {
  return static_cast<double>(now - said.at);
}

/// Somebody said so within the window.
bool stands(const SaidScore& said, std::uint32_t now, const ScoreTimes& times) noexcept {
  return said.sharer != 0 && age(said, now) < times.window_milliseconds;
}

/// Halves with each half-life, and falls in a straight line in between: exp2() would make libm a part of every program.
double faded(double half_lives) noexcept {
  const double whole = std::min(half_lives, most_half_lives);
  const auto times = static_cast<std::uint64_t>(whole);
  return (1 - (whole - static_cast<double>(times)) / 2) / static_cast<double>(std::uint64_t{1} << times);
}

}  // namespace

double score_now(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  const SaidScore& best = score.best;
  return best.value == 0 ? 0 : best.value * faded(age(best, now) / times.half_life_milliseconds);
}

bool is_said(const BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  return score.best.sharer != 0 && age(score.best, now) < times.half_life_milliseconds;
}

void set_score(BlockScore& score, double value, std::uint64_t sharer, std::uint32_t now,
               const ScoreTimes& times) noexcept {
  const SaidScore said{static_cast<float>(std::clamp(value, 0.0, 1.0)), now, sharer};
  if (score.best.sharer == sharer) {
    score.best = std::exchange(score.next, SaidScore());
  } else if (score.next.sharer == sharer) {
    score.next = SaidScore();
  }
  if (!stands(score.best, now, times) || said.value >= score.best.value) {
    score.next = std::exchange(score.best, said);
  } else if (!stands(score.next, now, times) || said.value >= score.next.value) {
    score.next = said;
  }
}

void touch_score(BlockScore& score, std::uint32_t now, const ScoreTimes& times) noexcept {
  if (is_said(score, now, times)) {
    return;  // Such as the write of a page that its reader has done with.
  }
  const double before = score_now(score, now, times);
  if (before < most_by_touches) {
    score = {{static_cast<float>(std::min(before + touch_worth, most_by_touches)), now, 0}, {}};
  }
}

}  // namespace tiermap
