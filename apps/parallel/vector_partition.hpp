// Partitioning and sorting by vector instructions, where the processor has them.
#pragma once

#include <cstdint>
#include <span>

namespace tiermap {

/// Whether the functions below may be called on this processor.
bool has_vector_partition() noexcept;

inline constexpr std::uint64_t least_vector_words = 64;
inline constexpr std::uint64_t most_few_words = 64;

/// partition_words() by AVX2: four words at a time are put in order by one permutation and stored at both ends. For
/// least_vector_words words and more.
std::uint64_t partition_words_by_vectors(std::span<std::uint64_t> words, std::uint64_t split) noexcept;

/// Sorts up to most_few_words words by counting, for each, how many are smaller: more comparisons than an insertion
/// sort, and not one that a processor could guess wrong.
void sort_few_words_by_vectors(std::span<std::uint64_t> words) noexcept;

}  // namespace tiermap
