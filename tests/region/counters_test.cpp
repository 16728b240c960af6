// What the counters and the stages say, against what was done to make them say it.
#include <vector>

#include "region/engine_fixture.hpp"
#include "region/settled_statistics.hpp"
#include "store/faulty_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class CountersTest : public EngineTest {
 protected:
  /// Nothing is read ahead: only what is asked for is counted.
  static RegionOptions quiet(std::uint64_t page_bytes, std::uint64_t length = 0) {
    RegionOptions options = read_only(page_bytes, length);
    options.advice = Advice::random;
    return options;
  }
  static bool copies_all() { return GetParam().placement == Placement::copy || !kernel_moves(); }

  /// Reads pages that the budget has room for; all must come one way.
  static void expect_placed(std::uint64_t page_bytes, bool by_copy, std::uint64_t budget_bytes) {
    constexpr std::uint64_t pages = 20;
    Cache cache(cache_options(budget_bytes));
    const Region region = cache.map(known_store(pages * page_bytes), quiet(page_bytes));
    EXPECT_TRUE(is_known(bytes_of(region), 0));
    const Statistics now = settled(region);
    EXPECT_EQ(now[Counter::copies], by_copy ? pages : 0) << page_bytes;
    EXPECT_EQ(now[Counter::moves], by_copy ? 0 : pages) << page_bytes;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, CountersTest, every_engine, engine_name);

TEST_P(CountersTest, LargePagesAreMovedUnlessCopyingWasAskedFor) {
  expect_placed(32 * kib, copies_all(), 4 * mib);
  expect_placed(64 * kib, copies_all(), 4 * mib);
}

TEST_P(CountersTest, SmallPagesAreCopiedUnlessMovingWasAskedFor) {
  expect_placed(4 * kib, copies_all() || GetParam().placement == Placement::automatic, 4 * mib);
  expect_placed(16 * kib, copies_all() || GetParam().placement == Placement::automatic, 4 * mib);
}

TEST_P(CountersTest, WithRoomForFewSmallPagesTheyAreMovedUnlessCopyingWasAskedFor) {
  expect_placed(16 * kib, copies_all(), 48 * 16 * kib);
}

TEST_P(CountersTest, WhatWasFetchedAheadAndEvictedUnusedIsWasted) {
  CacheOptions options = cache_options(1 * mib);
  options.policy = "fifo";
  Cache cache(options);
  Region region = cache.map(known_store(4 * mib), quiet(page));
  ASSERT_EQ(region.prefetch({0, 16 * page}).wait(), 16U);
  // Of pages that were copied in, nobody knows whether they are used.
  const std::uint64_t used = copies_all() ? 0 : 4;
  EXPECT_TRUE(is_known(bytes_of(region).first(used * page), 0));
  EXPECT_EQ(settled(region)[Counter::prefetch_wasted], 0U);
  EXPECT_TRUE(is_known(bytes_of(region).subspan(1 * mib), 1 * mib));
  const Statistics now = settled(region);
  EXPECT_EQ(now[Counter::prefetched_pages], 16U);
  EXPECT_EQ(now[Counter::prefetch_used], used);
  EXPECT_EQ(now[Counter::prefetch_wasted], 16 - used);
}

// A file of which the store says that it has nothing from `hole` on.
class StoreWithHole final : public Store {
 public:
  StoreWithHole(std::shared_ptr<Store> file, std::uint64_t hole) : file_(std::move(file)), hole_(hole) {}
  std::uint64_t size_bytes() const override { return file_->size_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    return file_->read(buffer, bytes, offset);
  }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override {
    if (offset < hole_) {
      return file_->locate_read(offset, std::min(bytes, hole_ - offset), extent);
    }
    extent = Extent{};
    extent.bytes = bytes;
    extent.hole = true;
    return true;
  }

 private:
  const std::shared_ptr<Store> file_;
  const std::uint64_t hole_;
};

TEST_P(CountersTest, APageInAHoleIsFilledWithoutARead) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "data", 16 * page);
  std::shared_ptr<Store> file = open_store("file://" + directory.encoded() + "/data", OpenMode::read_only);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(std::make_shared<StoreWithHole>(std::move(file), 10 * page), quiet(page));
  EXPECT_TRUE(is_known(bytes_of(region).first(10 * page), 0));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(10 * page), std::byte{0}));
  const Statistics now = settled(region);
  EXPECT_EQ(now[Counter::zero_fills], 6U);
  EXPECT_EQ(now[Counter::fills], 16U);
  EXPECT_EQ(now[Counter::read_bytes], 10 * page);
}

TEST_P(CountersTest, APagePastTheStoresEndIsFilledWithoutARead) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "short", 10 * page + 5);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(directory / "short", quiet(page, 16 * page));
  EXPECT_TRUE(is_known(bytes_of(region).first(10 * page + 5), 0));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(10 * page + 5), std::byte{0}));
  const Statistics now = settled(region);
  EXPECT_EQ(now[Counter::zero_fills], 5U);
  EXPECT_EQ(now[Counter::fills], 16U);
  EXPECT_EQ(now[Counter::read_bytes], 10 * page + 5);
}

TEST_P(CountersTest, WhatQueuesWhileEveryFillerIsBusyIsTakenInABatch) {
  CacheOptions options = cache_options(4 * mib);
  options.fillers = 1;
  Cache cache(options);
  const auto stalled = std::make_shared<FaultyStore>(known_store(page));
  stalled->on_read([](const FaultyStore::Call&) { return FaultyStore::stall(); });
  Region first = cache.map(stalled, quiet(page));
  const Prefetch holds_the_filler = first.prefetch({0, page});
  ASSERT_TRUE(comes_to_be([&] { return stalled->stalled() == 1; }));
  Region region = cache.map(known_store(64 * page), quiet(page));
  std::vector<ByteRange> apart;
  for (std::uint64_t number = 0; number < 12; ++number) {
    apart.push_back({number * 4 * page, page});
  }
  const Prefetch queued = region.prefetch(apart);
  EXPECT_EQ(cache.statistics()[Counter::batches], 0U);
  stalled->on_read({});
  stalled->release();
  EXPECT_EQ(queued.wait(), 12U);
  EXPECT_EQ(holds_the_filler.wait(), 1U);
  EXPECT_EQ(cache.statistics()[Counter::batches], 1U);
}

const LatencyHistogram& stage(const Statistics& statistics, Stage which) {
  return statistics.stages[static_cast<std::size_t>(which)];
}

/// The statistics once that many faults have been timed to their end.
Statistics timed(const Region& region, std::uint64_t faults) {
  EXPECT_TRUE(comes_to_be([&] { return stage(region.statistics(), Stage::total).count() == faults; }));
  return region.statistics();
}

TEST_P(CountersTest, ASlowStoreShowsInTheStageThatReads) {
  const auto store = std::make_shared<FaultyStore>(known_store(16 * page));
  store->on_read([](const FaultyStore::Call&) { return FaultyStore::delay(std::chrono::milliseconds(5)); });
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(store, quiet(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  const Statistics now = timed(region, 16);
  EXPECT_EQ(now[Counter::fills], 16U);
  for (const Stage each : {Stage::frame, Stage::read, Stage::place}) {
    EXPECT_EQ(stage(now, each).count(), 16U) << stage_name(each);
  }
  constexpr std::uint64_t less_than_the_delay = 2'000'000;
  EXPECT_GE(stage(now, Stage::read).quantile_nanoseconds(0.5), less_than_the_delay);
  EXPECT_GE(stage(now, Stage::total).quantile_nanoseconds(0.5), less_than_the_delay);
}

TEST_P(CountersTest, OnlyAFaultThatAnotherThreadServesWaitsInAQueue) {
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(16 * page), quiet(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  const Statistics now = timed(region, 16);
  EXPECT_EQ(stage(now, Stage::queue).count(), GetParam().fault_mode == FaultMode::notify ? 16U : 0U);
}

}  // namespace
}  // namespace tiermap
