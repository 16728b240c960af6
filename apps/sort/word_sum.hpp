// Whether words are the ones that were there before, in another order, and whether that order is right.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "command_line/backing.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

/// A checksum that does not depend on order: count and sum of the words, sum and exclusive-or of their hashes. One word
/// changed into another changes it for certain; words changed in several places go unseen once in 2^128.
struct WordSum {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;
  std::uint64_t hash_sum = 0;
  std::uint64_t hash_xor = 0;

  void add(std::span<const std::uint64_t> words) noexcept;
  void add(const WordSum& other) noexcept;
  bool operator==(const WordSum&) const = default;
};

/// What is known of words after one look: their checksum, and the first place where order is broken.
struct WordCheck {
  WordSum sum;
  std::optional<std::uint64_t> disorder;  ///< Index of the first word that is smaller than the one before it.
};

/// Looks at words in memory.
WordCheck check_words(std::span<const std::uint64_t> words, ThreadTeam& team);
/// Looks at the words of a store, read in large pieces, past every cache of this program's.
WordCheck check_words(Store& store, ThreadTeam& team);

/// Empty if the words are sorted and are those that `before` was taken of; else one line on what is wrong.
std::string explain_difference(const WordSum& before, const WordCheck& after);

}  // namespace tiermap
