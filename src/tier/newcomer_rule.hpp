// Whether what was brought into the tiers last stays there, or what is there already: a choice of two rules, by what
// each of them would have saved.
//
// Data larger than the tiers that are read again and again in the same order defeat every rule that keeps what was used
// last: each block leaves just before it is needed. Who keeps any fixed part of them has that part each time round.
// Wherever else, what was used last is worth more than what was not. Each block says how many others were used since it
// was itself, and that is what tells the rules apart: who keeps what was used last has a block that comes back before
// the tiers are full of others, and none that comes back later; who keeps a part has of those the share that fits.
#pragma once

#include <cstdint>

namespace tiermap {

/// When a block was used. All zeros: never.
struct BlockVisits {
  std::uint32_t last : 31;         ///< Counted in uses of any blocks, which begins anew at 1.
  std::uint32_t used_in_tier : 1;  ///< Again, since it was brought there.
};

/// Guarded by who has it.
class NewcomerRule {
 public:
  enum class Where : std::uint8_t { settled, passing, behind };

  /// The tiers have room for so many blocks, and for so many besides that only pass.
  void set_room(std::uint64_t settled, std::uint64_t passing) noexcept;
  /// The block is used. What is used again while no more others were than may pass is still the same use, such as the
  /// pages of a block one after the other.
  void use(BlockVisits& block, Where where) noexcept;
  /// How many others were used since.
  std::uint32_t since(const BlockVisits& block) const noexcept;
  /// What comes new leaves first.
  bool keeps_settled() const noexcept { return keeps_settled_; }

 private:
  double saved(const BlockVisits& block, std::uint32_t others, Where where) const noexcept;

  std::uint32_t clock_ = 0;
  std::uint64_t settled_ = 0;
  std::uint64_t passing_ = 0;
  bool keeps_settled_ = false;
  double ahead_ = 0;  ///< Blocks that the rule that holds has saved more than the other would have, `settled_` at most.
};

}  // namespace tiermap
