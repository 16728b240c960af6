// Counters, names and quantiles.
#include "observe/counters.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

TEST(Counters, EachHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t counter = 0; counter < counter_count; ++counter) {
    names.insert(counter_name(static_cast<Counter>(counter)));
  }
  EXPECT_EQ(names.size(), counter_count);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_STREQ(counter_name(Counter::count_), "unknown");
  std::set<std::string> stages;
  for (std::size_t stage = 0; stage < stage_count; ++stage) {
    stages.insert(stage_name(static_cast<Stage>(stage)));
  }
  EXPECT_EQ(stages.size(), stage_count);
  EXPECT_FALSE(stages.contains("unknown"));
  EXPECT_STREQ(counter_name(Counter::prefetch_wasted), "prefetch_wasted");
  EXPECT_STREQ(stage_name(Stage::total), "total");
}

TEST(Counters, SnapshotHasEverythingThatWasAdded) {
  const auto block = std::make_unique<CounterBlock>();
  constexpr int threads = 4;
  constexpr int rounds = 10'000;
  std::vector<std::thread> workers;
  for (int thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&] {
      for (int round = 0; round < rounds; ++round) {
        block->add(Counter::fills);
        block->add(Counter::read_bytes, 4096);
        block->record(Stage::read, 1000);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  block->budget_bytes = 1;
  block->resident_bytes = 2;
  block->mapped_bytes = 3;
  block->dirty_bytes = 4;
  const Statistics statistics = block->snapshot();
  EXPECT_EQ(statistics[Counter::fills], std::uint64_t{threads} * rounds);
  EXPECT_EQ(statistics[Counter::read_bytes], std::uint64_t{threads} * rounds * 4096);
  EXPECT_EQ(statistics[Counter::evictions], 0U);
  EXPECT_EQ(statistics.stages[static_cast<std::size_t>(Stage::read)].count(), std::uint64_t{threads} * rounds);
  EXPECT_EQ(statistics.stages[static_cast<std::size_t>(Stage::total)].count(), 0U);
  EXPECT_EQ(statistics.budget_bytes, 1U);
  EXPECT_EQ(statistics.resident_bytes, 2U);
  EXPECT_EQ(statistics.mapped_bytes, 3U);
  EXPECT_EQ(statistics.dirty_bytes, 4U);
}

LatencyHistogram histogram_of(const std::vector<std::uint64_t>& durations) {
  const auto block = std::make_unique<CounterBlock>();
  for (const std::uint64_t duration : durations) {
    block->record(Stage::total, duration);
  }
  return block->snapshot().stages[static_cast<std::size_t>(Stage::total)];
}

TEST(Histogram, EmptyHasNoQuantiles) {
  EXPECT_EQ(LatencyHistogram{}.quantile_nanoseconds(0.5), 0U);
}

TEST(Histogram, BucketsAreByPowersOfTwo) {
  const LatencyHistogram histogram =
      histogram_of({0, 1, 2, 3, 4, 7, 8, 1023, 1024, std::numeric_limits<std::uint64_t>::max()});
  EXPECT_EQ(histogram.buckets[0], 2U);
  EXPECT_EQ(histogram.buckets[1], 2U);
  EXPECT_EQ(histogram.buckets[2], 2U);
  EXPECT_EQ(histogram.buckets[3], 1U);
  EXPECT_EQ(histogram.buckets[9], 1U);
  EXPECT_EQ(histogram.buckets[10], 1U);
  EXPECT_EQ(histogram.buckets[39], 1U);
  EXPECT_EQ(histogram.count(), 10U);
}

TEST(Histogram, QuantileIsRightToAFactorOfTwo) {
  std::vector<std::uint64_t> durations;
  for (std::uint64_t duration = 1; duration <= 10'000; ++duration) {
    durations.push_back(duration);
  }
  const LatencyHistogram histogram = histogram_of(durations);
  for (const double share : {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    const auto exact = static_cast<std::uint64_t>(std::ceil(share * 10'000));
    const std::uint64_t quantile = histogram.quantile_nanoseconds(share);
    EXPECT_GE(quantile, exact) << share;
    EXPECT_LT(quantile, 2 * exact) << share;
  }
}

TEST(Histogram, QuantileOfOddShares) {
  const LatencyHistogram histogram = histogram_of({100, 100, 100, 5000});
  EXPECT_EQ(histogram.quantile_nanoseconds(0), 127U);
  EXPECT_EQ(histogram.quantile_nanoseconds(-1), 127U);
  EXPECT_EQ(histogram.quantile_nanoseconds(std::nan("")), 127U);
  EXPECT_EQ(histogram.quantile_nanoseconds(0.75), 127U);
  EXPECT_EQ(histogram.quantile_nanoseconds(0.76), 8191U);
  EXPECT_EQ(histogram.quantile_nanoseconds(2), 8191U);
}

}  // namespace
}  // namespace tiermap
