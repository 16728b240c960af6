// The sort itself and what checks it: against std::sort, with so little memory that every path is taken; and that a
// result with one thing wrong is called wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include "parallel/partition.hpp"
#include "parallel/thread_team.hpp"
#include "parallel/vector_partition.hpp"
#include "parallel/word_sort.hpp"
#include "sort/word_input.hpp"
#include "sort/word_sum.hpp"

namespace tiermap::test {
namespace {

using Words = std::vector<std::uint64_t>;

Words random_words(std::size_t count, std::uint64_t seed, std::uint64_t most = ~std::uint64_t{0}) {
  std::mt19937_64 random(seed);
  std::uniform_int_distribution<std::uint64_t> distribution(0, most);
  Words words(count);
  std::generate(words.begin(), words.end(), [&] { return distribution(random); });
  return words;
}

Words sorted(Words words) {
  std::sort(words.begin(), words.end());
  return words;
}

void expect_partitioned(const Words& before, const Words& after, std::uint64_t split, std::uint64_t under) {
  const auto expected = std::count_if(before.begin(), before.end(), [&](std::uint64_t word) { return word < split; });
  EXPECT_EQ(under, static_cast<std::uint64_t>(expected));
  EXPECT_TRUE(std::all_of(after.begin(), after.begin() + expected, [&](std::uint64_t word) { return word < split; }));
  EXPECT_EQ(sorted(before), sorted(after));
}

TEST(Partition, ByOneThreadPutsEveryWordOnItsSide) {
  for (std::size_t count = 0; count < 1200; count += 1 + count / 16) {
    for (const std::uint64_t split : {0U, 1U, 30U, 50U, 99U, 100U}) {
      const Words before = random_words(count, count, 99);
      Words after = before;
      expect_partitioned(before, after, split, partition_words(after, split));
      after = before;
      expect_partitioned(before, after, split, partition_words_by_positions(after, split));
      after = before;
      if (has_vector_partition() && count >= least_vector_words) {
        expect_partitioned(before, after, split, partition_words_by_vectors(after, split));
      }
    }
  }
}

TEST(Partition, KeepsToItsWords) {
  // Vectors are stored at both ends: what lies beside the range must not be touched, nor large words be taken as
  // negative.
  for (const std::size_t count : {64U, 65U, 127U, 128U, 129U, 255U, 256U, 1000U, 1023U}) {
    Words words = random_words(count + 16, count);
    const Words before = words;
    const std::uint64_t split = std::uint64_t{3} << 62U;
    const auto middle = std::span(words).subspan(8, count);
    const std::uint64_t under = partition_words(middle, split);
    EXPECT_TRUE(std::equal(before.begin(), before.begin() + 8, words.begin()));
    EXPECT_TRUE(std::equal(before.end() - 8, before.end(), words.end() - 8));
    expect_partitioned({before.begin() + 8, before.end() - 8}, {middle.begin(), middle.end()}, split, under);
  }
}

TEST(FewWords, AreSortedAsStdSortDoes) {
  if (!has_vector_partition()) {
    GTEST_SKIP() << "this processor has no AVX2";
  }
  for (std::size_t count = 1; count <= most_few_words; ++count) {
    for (const std::uint64_t most : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{60}, ~std::uint64_t{0}}) {
      const Words before = random_words(count, count + most, most);
      Words after = before;
      sort_few_words_by_vectors(after);
      EXPECT_EQ(after, sorted(before));
    }
  }
  Words largest(5, ~std::uint64_t{0});
  sort_few_words_by_vectors(largest);
  EXPECT_EQ(largest, Words(5, ~std::uint64_t{0}));
}

TEST(Partition, ByManyThreadsPutsEveryWordOnItsSide) {
  for (const std::uint32_t threads : {1U, 2U, 3U, 8U}) {
    ThreadTeam team(threads);
    for (const std::size_t count : {0U, 1U, 63U, 64U, 65U, 1000U, 4096U, 100003U}) {
      for (const std::uint64_t split : {0U, 1U, 20U, 50U, 99U, 100U}) {
        const Words before = random_words(count, count + threads, 99);
        Words after = before;
        PartitionOptions options;
        options.block_words = 64;
        const std::uint64_t under = partition_words_together(after, split, team, options);
        expect_partitioned(before, after, split, under);
      }
    }
  }
}

TEST(Partition, TellsAheadOfEveryWordOnceAtMost) {
  ThreadTeam team(3);
  Words words = random_words(100000, 1);
  std::vector<std::atomic<int>> told(words.size());
  PartitionOptions options;
  options.block_words = 256;
  options.lookahead_words = 8192;
  options.announcement_words = 1024;
  options.ahead = [&](std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t index = first; index < first + count; ++index) {
      ++told.at(index);
    }
  };
  partition_words_together(words, std::uint64_t{1} << 63U, team, options);
  const auto count_of = [&](int times) {
    return std::count_if(told.begin(), told.end(), [&](const std::atomic<int>& count) { return count == times; });
  };
  // Less than one announcement may be left in the middle.
  EXPECT_EQ(count_of(0) + count_of(1), 100000);
  EXPECT_LT(count_of(0), 1024 + 2 * 256);
}

class WordSortTest : public testing::TestWithParam<std::uint32_t> {};

void expect_sorts(const Words& before, std::uint32_t threads, std::uint64_t memory_bytes) {
  ThreadTeam team(threads);
  Words after = before;
  WordSortOptions options;
  options.memory_bytes = memory_bytes;
  std::atomic<std::uint64_t> finished{0};
  options.finished = [&](std::uint64_t, std::uint64_t count) { finished += count; };
  sort_words(after, team, options);
  EXPECT_EQ(after, sorted(before));
  EXPECT_EQ(finished, before.size());
}

TEST_P(WordSortTest, SortsAsStdSortDoes) {
  for (const std::size_t count : {0U, 1U, 2U, 3U, 31U, 32U, 33U, 129U, 4096U, 70001U, 400000U}) {
    for (const std::uint64_t most :
         {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{100000}, ~std::uint64_t{0}}) {
      expect_sorts(random_words(count, count, most), GetParam(), 100000);
    }
  }
}

TEST_P(WordSortTest, SortsPatterns) {
  Words ascending(300000);
  std::iota(ascending.begin(), ascending.end(), 0);
  Words descending(ascending.rbegin(), ascending.rend());
  Words organ_pipe = ascending;
  std::copy(descending.begin(), descending.begin() + 150000, organ_pipe.begin() + 150000);
  Words powers(300000);
  for (std::size_t index = 0; index < powers.size(); ++index) {
    powers[index] = std::uint64_t{1} << (index * 7 % 64);
  }
  Words nearly_all_largest(300000, ~std::uint64_t{0});
  nearly_all_largest[77] = 3;
  // Values that double: samples of counts and halves of values are both at their worst.
  Words steep(300000, 0);
  for (std::size_t index = 0; index < 64; ++index) {
    steep[index * 4001] = std::uint64_t{1} << index;
  }
  for (const Words& words : {ascending, descending, organ_pipe, powers, nearly_all_largest, steep}) {
    expect_sorts(words, GetParam(), 200000);
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, WordSortTest, testing::Values(1U, 2U, 3U, 8U, 16U));

TEST(WordSort, WhoeverEndsItBetweenTwoStepsFindsEveryWord) {
  const Words before = random_words(1U << 18U, 11);
  const Words in_order = sorted(before);
  for (const std::uint32_t threads : {1U, 4U}) {
    ThreadTeam team(threads);
    for (const std::uint32_t last : {0U, 3U, 10U, 30U}) {
      Words words = before;
      std::atomic<std::uint32_t> steps{0};
      WordSortOptions options;
      options.memory_bytes = 1U << 15U;  // Some hundred steps.
      options.between = [&] {
        if (steps++ >= last) {
          throw std::runtime_error("the end");
        }
      };
      try {
        sort_words(words, team, options);
      } catch (const std::runtime_error&) {
      }
      EXPECT_GT(steps, last) << threads;
      EXPECT_TRUE(sorted(std::move(words)) == in_order) << threads << " threads, after step " << last;
    }
  }
}

TEST(WordSort, AThrowingCallbackReachesTheCaller) {
  ThreadTeam team(4);
  Words words = random_words(100000, 3);
  WordSortOptions options;
  options.finished = [](std::uint64_t, std::uint64_t) { throw std::runtime_error("no"); };
  EXPECT_THROW(sort_words(words, team, options), std::runtime_error);
  // The team is still good.
  options.finished = nullptr;
  sort_words(words, team, options);
  EXPECT_TRUE(std::is_sorted(words.begin(), words.end()));
}

class WordCheckTest : public testing::Test {
 protected:
  WordSum sum_of(const Words& words) {
    WordSum sum;
    sum.add(words);
    return sum;
  }
  std::string explain(const Words& before, const Words& after) {
    return explain_difference(sum_of(before), check_words(after, team_));
  }
  ThreadTeam team_{3};
};

TEST_F(WordCheckTest, AcceptsWhatIsRight) {
  for (const std::size_t count : {1U, 2U, 1000U, 131072U, 131073U, 2000000U}) {
    const Words words = random_words(count, count);
    EXPECT_EQ(explain(words, sorted(words)), "");
  }
}

TEST_F(WordCheckTest, SeesDisorderAnywhere) {
  // 131,072 words are looked at as one piece: disorder inside, and on the border between two.
  const Words words = sorted(random_words(1200000, 1));
  for (const std::size_t at : {1U, 1000U, 131071U, 131072U, 131073U, 1048576U, 1199999U}) {
    Words wrong = words;
    std::swap(wrong[at - 1], wrong[at]);
    EXPECT_EQ(explain(words, wrong), "word " + std::to_string(at) + " is smaller than the one before it");
  }
}

TEST_F(WordCheckTest, SeesWordsThatChanged) {
  const Words words = sorted(random_words(100000, 2));
  Words lost = words;
  lost[50000] = lost[49999];  // One word lost, its neighbour there twice.
  EXPECT_NE(explain(words, lost).find("not those"), std::string::npos);
  Words balanced = words;
  balanced[10] += 1;  // The plain sum stays the same.
  balanced[11] -= 1;
  EXPECT_NE(explain(words, balanced).find("not those"), std::string::npos);
  Words paired = words;
  paired[10] ^= 1U;  // So does the exclusive-or of the words.
  paired[90000] ^= 1U;
  EXPECT_NE(explain(words, paired).find("not those"), std::string::npos);
  Words page_of_zeros = words;
  std::fill_n(page_of_zeros.begin(), 512, 0);
  EXPECT_NE(explain(words, page_of_zeros).find("not those"), std::string::npos);
}

TEST_F(WordCheckTest, SeesAnotherCount) {
  Words words = sorted(random_words(100, 3));
  const Words before = words;
  words.pop_back();
  EXPECT_EQ(explain(before, words), "there were 100 words and now there are 99");
}

TEST(WordInput, IsAFunctionOfSeedAndPlace) {
  EXPECT_EQ(input_word(WordOrder::uniform, 5, 10, 1), input_word(WordOrder::uniform, 5, 20, 1));
  EXPECT_NE(input_word(WordOrder::uniform, 5, 10, 1), input_word(WordOrder::uniform, 5, 10, 2));
  EXPECT_EQ(input_word(WordOrder::ascending, 5, 10, 1), 5U);
  EXPECT_EQ(input_word(WordOrder::descending, 0, 10, 1), 10U);
  Words few;
  for (std::uint64_t index = 0; index < 10000; ++index) {
    few.push_back(input_word(WordOrder::few_distinct, index, 10000, 1));
  }
  few = sorted(few);
  few.erase(std::unique(few.begin(), few.end()), few.end());
  EXPECT_EQ(few.size(), 16U);
}

}  // namespace
}  // namespace tiermap::test
