#include "parallel/vector_partition.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tiermap {

#if defined(__x86_64__)
namespace {

constexpr std::uint64_t lanes = 4;
/// Words read at a time from one end: the choice of the end is then paid for once in 32 words.
constexpr std::uint64_t block_words = 32;

/// For each set of lanes whose words are small: which 32-bit halves to take so that those come first, order kept.
struct alignas(32) Permutation {
  std::array<std::int32_t, 8> halves;
};

constexpr std::array<Permutation, 16> make_permutations() {
  std::array<Permutation, 16> table{};
  for (std::uint32_t small = 0; small < 16; ++small) {
    std::size_t place = 0;
    for (const bool wanted : {true, false}) {
      for (std::uint32_t lane = 0; lane < lanes; ++lane) {
        if (((small >> lane & 1U) != 0) == wanted) {
          table[small].halves[place++] = static_cast<std::int32_t>(2 * lane);
          table[small].halves[place++] = static_cast<std::int32_t>(2 * lane + 1);
        }
      }
    }
  }
  return table;
}
constexpr std::array<Permutation, 16> permutations = make_permutations();

/// Where the next small word, and the end of the large ones, are to be written.
struct Ends {
  std::uint64_t* small;
  std::uint64_t* large;
};

/// Stores a block's small words at one end and its large words at the other; `next` and `step` go through it away from
/// the end that it lies at. Up to three words beside each are overwritten with what does not matter: there must be room
/// for a whole block at both ends, the block itself included.
[[gnu::target("avx2"), gnu::always_inline]] inline void store_block(const std::uint64_t* next, std::ptrdiff_t step,
                                                                    __m256i split, __m256i sign, Ends& ends) {
  for (std::uint64_t done = 0; done < block_words; done += lanes, next += step) {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(next));
    // Comparisons are of signed numbers: with the top bit turned over they order unsigned ones.
    const __m256i is_small = _mm256_cmpgt_epi64(split, _mm256_xor_si256(words, sign));
    const auto small = static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(is_small)));
    const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(permutations[small].halves.data()));
    const __m256i ordered = _mm256_permutevar8x32_epi32(words, order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ends.small), ordered);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(ends.large - lanes), ordered);
    const auto count = static_cast<std::uint64_t>(std::popcount(small));
    ends.small += count;
    ends.large -= lanes - count;
  }
}

}  // namespace

bool has_vector_partition() noexcept {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

[[gnu::target("avx2")]] std::uint64_t partition_words_by_vectors(std::span<std::uint64_t> words,
                                                                 std::uint64_t split) noexcept {
  const __m256i sign = _mm256_set1_epi64x(std::numeric_limits<long long>::min());
  const __m256i split_words = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<long long>(split)), sign);
  std::uint64_t* left = words.data();
  std::uint64_t* right = left + words.size();
  Ends ends = {left, right};
  // A block from each end is set aside: that is the room to write in.
  std::array<std::uint64_t, 3 * block_words> aside;
  std::copy_n(left, block_words, aside.data());
  std::copy_n(right - block_words, block_words, aside.data() + block_words);
  left += block_words;
  right -= block_words;
  while (static_cast<std::uint64_t>(right - left) >= block_words) {
    // From the end with less room: then both have room for a block.
    const bool from_left = left - ends.small <= ends.large - right;
    const std::uint64_t* first = from_left ? left : right - lanes;
    left += from_left ? block_words : 0;
    right -= from_left ? 0 : block_words;
    store_block(first, from_left ? std::ptrdiff_t{lanes} : -std::ptrdiff_t{lanes}, split_words, sign, ends);
  }
  const auto rest = static_cast<std::uint64_t>(right - left);
  std::copy_n(left, rest, aside.data() + 2 * block_words);
  for (std::uint64_t index = 0; index < 2 * block_words + rest; ++index) {
    const std::uint64_t word = aside[index];
    const bool is_small = word < split;
    *(is_small ? ends.small : ends.large - 1) = word;
    ends.small += is_small ? 1 : 0;
    ends.large -= is_small ? 0 : 1;
  }
  return static_cast<std::uint64_t>(ends.small - words.data());
}

[[gnu::target("avx2")]] void sort_few_words_by_vectors(std::span<std::uint64_t> words) noexcept {
  constexpr std::uint64_t group = 4 * lanes;
  // With the top bit turned over, so that signed comparisons order them; the rest is larger than all and in nobody's
  // way.
  alignas(32) std::array<std::uint64_t, most_few_words> keys;
  alignas(32) std::array<std::uint64_t, most_few_words> ranks;
  const std::uint64_t count = words.size();
  const std::uint64_t rounded = (count + group - 1) / group * group;
  for (std::uint64_t index = 0; index < rounded; ++index) {
    keys[index] = (index < count ? words[index] : ~std::uint64_t{0}) ^ (std::uint64_t{1} << 63U);
  }
  for (std::uint64_t first = 0; first < rounded; first += group) {
    const auto* four = reinterpret_cast<const __m256i*>(keys.data() + first);
    __m256i rank0 = _mm256_setzero_si256();
    __m256i rank1 = rank0;
    __m256i rank2 = rank0;
    __m256i rank3 = rank0;
    for (std::uint64_t other = 0; other < count; ++other) {
      const __m256i key = _mm256_set1_epi64x(static_cast<long long>(keys[other]));
      rank0 = _mm256_sub_epi64(rank0, _mm256_cmpgt_epi64(four[0], key));
      rank1 = _mm256_sub_epi64(rank1, _mm256_cmpgt_epi64(four[1], key));
      rank2 = _mm256_sub_epi64(rank2, _mm256_cmpgt_epi64(four[2], key));
      rank3 = _mm256_sub_epi64(rank3, _mm256_cmpgt_epi64(four[3], key));
    }
    auto* stored = reinterpret_cast<__m256i*>(ranks.data() + first);
    _mm256_store_si256(stored, rank0);
    _mm256_store_si256(stored + 1, rank1);
    _mm256_store_si256(stored + 2, rank2);
    _mm256_store_si256(stored + 3, rank3);
  }
  // Equal words have one rank; the places after it are theirs too.
  std::uint64_t taken = 0;
  for (std::uint64_t index = 0; index < count; ++index) {
    words[ranks[index]] = keys[index] ^ (std::uint64_t{1} << 63U);
    taken |= std::uint64_t{1} << ranks[index];
  }
  const std::uint64_t all = count == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
  for (std::uint64_t missing = all & ~taken; missing != 0; missing &= missing - 1) {
    const auto place = static_cast<std::uint64_t>(std::countr_zero(missing));
    words[place] = words[place - 1];
  }
}

#else

void sort_few_words_by_vectors(std::span<std::uint64_t> words) noexcept {
  std::sort(words.begin(), words.end());
}

bool has_vector_partition() noexcept {
  return false;
}

std::uint64_t partition_words_by_vectors(std::span<std::uint64_t> words, std::uint64_t) noexcept {
  return words.size();
}

#endif

}  // namespace tiermap
