// Transactions of several vectors in one cache: each has its share of the memory, and they say what came in time.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "store/temporary_directory.hpp"
#include "tiermap/vector.hpp"
#include "vector/open_transactions.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page_bytes = 16 << 10;
constexpr std::uint64_t elements_a_page = page_bytes / sizeof(std::uint64_t);
constexpr std::uint64_t pages_of_each = 512;
constexpr std::uint64_t count = pages_of_each * elements_a_page;
constexpr std::uint64_t vectors = 3;
constexpr std::uint64_t budget_bytes = pages_of_each * page_bytes / 4;

class SharedCacheTest : public testing::Test {
 protected:
  SharedCacheTest() {
    std::vector<std::uint64_t> numbers(count);
    std::iota(numbers.begin(), numbers.end(), 0);
    for (std::uint64_t number = 0; number < vectors; ++number) {
      VectorOptions options;
      options.cache = &cache_;
      options.page_size_bytes = page_bytes;
      options.advice = Advice::random;  // Pages come by faults or by the transactions, and no other way.
      vectors_.push_back(Vector<std::uint64_t>::create(directory_ / std::to_string(number), count, options));
      vectors_.back().copy_from(numbers);
      vectors_.back().sync();
      vectors_.back().region().discard({0, count * sizeof(std::uint64_t)});
    }
  }
  std::uint64_t counted(Counter counter) const { return cache_.statistics()[counter]; }
  /// Element by element the sum of the first two, with a use of 50 microseconds a page.
  std::array<TransactionStatistics, vectors> add(const TransactionOptions& options = {}) {
    const VectorRange all{0, count};
    auto left = vectors_[0].read(all, options);
    auto right = vectors_[1].read(all, options);
    auto sum = vectors_[2].write(all, options);
    while (left.position() < count) {
      const std::uint64_t until = std::min({left.until_turn(), right.until_turn(), sum.until_turn(), elements_a_page});
      for (std::uint64_t at = left.position(); at < left.position() + until; ++at) {
        vectors_[2][at] = vectors_[0][at] + vectors_[1][at];
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      left.advance(until);
      right.advance(until);
      sum.advance(until);
    }
    EXPECT_EQ(vectors_[2][count - 1], 2 * (count - 1));
    return {left.statistics(), right.statistics(), sum.statistics()};
  }

  const TemporaryDirectory directory_;
  Cache cache_{{.budget_bytes = budget_bytes}};
  std::vector<Vector<std::uint64_t>> vectors_;
};

TEST_F(SharedCacheTest, no_page_is_fetched_twice) {
  const std::uint64_t before = counted(Counter::fills);
  add();
  EXPECT_LT(counted(Counter::fills) - before, vectors * pages_of_each * 3 / 2);
}

// With windows that the memory has no room for, what was fetched leaves before it is used.
TEST_F(SharedCacheTest, what_has_left_memory_before_it_was_used_did_not_come_in_time) {
  TransactionOptions options;
  options.window_bytes = budget_bytes / 4 * 3;
  const std::uint64_t before = counted(Counter::fills) - counted(Counter::prefetched_pages);
  const auto statistics = add(options);
  const std::uint64_t by_faults = counted(Counter::fills) - counted(Counter::prefetched_pages) - before;
  std::uint64_t in_time = 0;
  for (const TransactionStatistics& one : statistics) {
    in_time += one.in_time;
  }
  EXPECT_GT(by_faults, pages_of_each / 4) << "there was room";
  EXPECT_LT(in_time, vectors * pages_of_each - by_faults / 2);
}

TEST_F(SharedCacheTest, those_that_say_their_window_take_no_share) {
  EXPECT_EQ(vectors_[0].storage().open_transactions(), 0U);
  {
    const auto first = vectors_[0].read();
    const auto second = vectors_[1].write();
    TransactionOptions options;
    options.window_bytes = page_bytes;
    const auto third = vectors_[2].read(vectors_[2].all(), options);
    for (Vector<std::uint64_t>& vector : vectors_) {
      EXPECT_EQ(vector.storage().open_transactions(), 2U);
      EXPECT_EQ(vector.storage().transactions()->count(), 1U) << "one that says its window is open as well";
    }
    EXPECT_EQ(Vector<std::uint64_t>::open_read_only(directory_ / "0").storage().open_transactions(), 0U);
  }
  EXPECT_EQ(vectors_[0].storage().open_transactions(), 0U);
}

}  // namespace
}  // namespace tiermap
