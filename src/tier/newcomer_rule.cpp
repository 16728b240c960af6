#include "tier/newcomer_rule.hpp"

#include <algorithm>

namespace tiermap {
namespace {

constexpr std::uint32_t last_of_clock = (1U << 31) - 1;

}  // namespace

void NewcomerRule::set_room(std::uint64_t settled, std::uint64_t passing) noexcept {
  ahead_ = settled_ == 0 ? static_cast<double>(settled) : std::min(ahead_, static_cast<double>(settled));
  settled_ = settled;
  passing_ = passing;
}

std::uint32_t NewcomerRule::since(const BlockVisits& block) const noexcept {
  return (clock_ - block.last) & last_of_clock;
}

void NewcomerRule::use(BlockVisits& block, Where where) noexcept {
  const std::uint32_t others = since(block);
  const bool again = block.last != 0;
  if (again && others < std::max<std::uint64_t>(passing_, 1)) {
    return;
  }
  clock_ = clock_ == last_of_clock ? 1 : clock_ + 1;
  if (again) {
    ahead_ = std::min(ahead_ + saved(block, others, where), static_cast<double>(settled_));
    if (ahead_ < 0) {
      keeps_settled_ = !keeps_settled_;
      ahead_ = static_cast<double>(settled_);
    }
  }
  block.last = clock_ & last_of_clock;
  block.used_in_tier = where != Where::behind ? 1 : 0;
}

/// Less than 0: the other rule would have had it. A scan of any length misses less in a round than it takes to lose all
/// that was saved in those before.
double NewcomerRule::saved(const BlockVisits& block, std::uint32_t others, Where where) const noexcept {
  const bool beyond = others > settled_;  // Who keeps what was used last has it no more.
  const double share = beyond ? static_cast<double>(settled_) / others : 1;
  if (keeps_settled_) {
    return where == Where::behind ? -share : where == Where::settled && beyond ? 1 : 0;
  }
  if (where == Where::behind) {
    return beyond ? -share : 0;
  }
  return block.used_in_tier != 0 ? 0 : 1;  // Used here before, it would be here by either rule.
}

}  // namespace tiermap
