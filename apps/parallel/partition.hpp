// Partitioning an array of words around a value, by one thread or by many, in place.
//
// Both forms find the words that are on the wrong side by filling a small table of their positions, without a branch on
// what a word is: a branch that goes either way half of the time would cost more than all the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "parallel/thread_team.hpp"

namespace tiermap {

/// Moves the words under `split` to the front. Returns how many they are.
std::uint64_t partition_words(std::span<std::uint64_t> words, std::uint64_t split);
/// The same without vector instructions, on any processor.
std::uint64_t partition_words_by_positions(std::span<std::uint64_t> words, std::uint64_t split);

/// Told, by the threads that partition, that they are about to come to a range of words: (first, count).
using WordsAhead = std::function<void(std::uint64_t, std::uint64_t)>;

/// How partition_words_together() goes about it.
struct PartitionOptions {
  std::uint64_t block_words = 32768;        ///< What a thread takes at a time from either end.
  std::uint64_t lookahead_words = 0;        ///< How far ahead of both ends `ahead` is told; 0 for never.
  std::uint64_t announcement_words = 0;     ///< How much it is told of at a time.
  WordsAhead ahead;                         ///< May be empty. Called by several threads at once.
  std::function<void(std::uint64_t)> done;  ///< Told how many words have been put right; may be empty.
};

/// The same result, by all threads of the team: each takes blocks from both ends and swaps what is wrong in one against
/// what is wrong in the other; the few blocks left half done are gathered in the middle and finished by one thread.
std::uint64_t partition_words_together(std::span<std::uint64_t> words, std::uint64_t split, ThreadTeam& team,
                                       const PartitionOptions& options);

}  // namespace tiermap
