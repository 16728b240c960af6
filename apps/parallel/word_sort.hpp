// Sorting an array of 64-bit words in place that may be larger than memory: a parallel quicksort that knows how much of
// the array can be in memory at once, and nothing of who brings it there.
//
// Out of core every pass over a range reads and writes all of it, so what counts is how many passes there are and that
// each goes through the range in address order. A range too large for memory is split by all threads together, around a
// value chosen so that its parts can be split again into parts that fit; a part that fits is finished in memory before
// the next is touched. Equal words cost nothing extra: the bounds of the values in a range are known from its splits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/partition.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct WordSortOptions {
  std::uint64_t memory_bytes = ~std::uint64_t{0};  ///< How much of the array can stay in memory.
  std::uint64_t seed = 1;                          ///< For the samples that splits are chosen from.
  WordsAhead ahead;     ///< Told what is about to be touched, far enough ahead to fetch it. May be empty.
  WordsAhead finished;  ///< Told what is in its final order and will not be touched again. May be empty.
  /// Called now and then by all threads, between two steps: what it throws ends the sort, and every word is still in
  /// the array. May be empty.
  std::function<void()> between;
};

/// Sorts in ascending order. At most 64 passes over any word beyond what a perfectly split quicksort needs, whatever
/// the input is.
void sort_words(std::span<std::uint64_t> words, ThreadTeam& team, const WordSortOptions& options);

/// The part of it that one thread does in memory: sorts `words`, all of which lie from `low` to `high`.
void sort_words_alone(std::span<std::uint64_t> words, std::uint64_t low, std::uint64_t high);

}  // namespace tiermap
