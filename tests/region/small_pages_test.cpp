// Automatic placement copies what faults bring in small pages, and drops it in groups unless second chances pay.
#include <chrono>
#include <random>
#include <thread>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4 * kib;
constexpr std::uint64_t store_bytes = 16 * mib;
constexpr std::uint64_t budget_bytes = 2 * mib;

class SmallPages : public EngineTest {
 protected:
  SmallPages() : cache_(cache_options(budget_bytes)), region_(cache_.map(known_store(store_bytes), region_options())) {}

  static RegionOptions region_options() {
    RegionOptions options = read_write(page);
    options.advice = Advice::random;
    return options;
  }

  /// Reads pages of [0, limit) at random; every byte read is checked.
  void read_at_random(int times, std::uint64_t limit) {
    for (int time = 0; time < times; ++time) {
      const std::uint64_t offset = random_() % (limit / page) * page + random_() % page;
      ASSERT_EQ(touch(region_.data() + offset), known_byte(offset));
    }
  }
  std::uint64_t counted(Counter counter) const { return region_.statistics()[counter]; }

  const std::uint64_t seed_ = std::random_device()();
  const testing::ScopedTrace trace_{__FILE__, __LINE__, "seed " + std::to_string(seed_)};
  std::mt19937_64 random_{seed_};
  Cache cache_;
  Region region_;
};
INSTANTIATE_TEST_SUITE_P(Engines, SmallPages,
                         ::testing::Values(EngineChoice{FaultMode::notify, Placement::automatic, "notify"},
                                           EngineChoice{FaultMode::self_serving, Placement::automatic, "self_serving"}),
                         engine_name);

TEST_P(SmallPages, WhereFewPagesComeBackTheyAreCopiedInAndDropped) {
  read_at_random(20'000, store_bytes);
  const std::uint64_t moves_before = counted(Counter::moves);
  const std::uint64_t copies_before = counted(Counter::copies);
  const std::uint64_t evictions_before = counted(Counter::evictions);
  read_at_random(20'000, store_bytes);
  EXPECT_GT(counted(Counter::copies) - copies_before, 10'000U);
  EXPECT_LT(counted(Counter::moves) - moves_before, counted(Counter::copies) - copies_before);
  EXPECT_GT(counted(Counter::evictions) - evictions_before, 10'000U);
  EXPECT_LE(cache_.statistics().resident_bytes, budget_bytes);
}

TEST_P(SmallPages, WhereManyComeBackTheyAreKeptAndRescuedIfAShareIsChosen) {
  CacheOptions options = cache_options(budget_bytes);
  options.unmapped_share_percent = 25;
  Cache cache(options);
  region_ = cache.map(known_store(store_bytes), region_options());
  read_at_random(20'000, store_bytes);
  // Nearly all of it fits: what is unmapped is soon wanted again.
  bool kept = false;
  for (int round = 0; round < 50 && !kept; ++round) {
    const std::uint64_t rescues_before = counted(Counter::rescues);
    const std::uint64_t fills_before = counted(Counter::fills);
    read_at_random(10'000, budget_bytes / 8 * 9);
    kept = counted(Counter::rescues) - rescues_before > (counted(Counter::fills) - fills_before) / 2;
  }
  EXPECT_TRUE(kept) << counted(Counter::rescues) << " of " << counted(Counter::fills);
  region_.unmap();
}

TEST_P(SmallPages, WhatWasWrittenIsNotDropped) {
  for (std::uint64_t offset = 8; offset < store_bytes; offset += page) {
    poke(region_.data() + offset, std::byte{0});
  }
  for (std::uint64_t offset = 8; offset < store_bytes; offset += page) {
    ASSERT_EQ(touch(region_.data() + offset), std::byte{0}) << offset;
    ASSERT_EQ(touch(region_.data() + offset + 1), known_byte(offset + 1)) << offset;
  }
}

// Two things make a page arrive writable: that the thread writes, and that most pages of the region were written to.
TEST_P(SmallPages, WhereMostPagesThatAreReadAreThenWrittenTheyArriveWritable) {
  const auto increment_all = [&] {
    for (std::uint64_t offset = 8; offset < store_bytes; offset += page) {
      poke(region_.data() + offset, static_cast<std::byte>(std::to_integer<int>(touch(region_.data() + offset)) + 1));
    }
  };
  increment_all();
  const std::uint64_t protect_faults_before = counted(Counter::protect_faults);
  increment_all();
  EXPECT_LT(counted(Counter::protect_faults) - protect_faults_before, store_bytes / page / 8);
  for (std::uint64_t offset = 8; offset < store_bytes; offset += page) {
    const auto expected = static_cast<std::byte>(std::to_integer<int>(known_byte(offset)) + 2);
    ASSERT_EQ(touch(region_.data() + offset), expected) << offset;
    ASSERT_EQ(touch(region_.data() + offset + 1), known_byte(offset + 1)) << offset;
  }
}

TEST_P(SmallPages, AnUnchangedPageThatArrivedWritableIsNotWritten) {
  for (std::uint64_t offset = 8; offset < store_bytes; offset += page) {
    poke(region_.data() + offset, touch(region_.data() + offset));
  }
  region_.sync();
  const std::uint64_t written_before = counted(Counter::written_bytes);
  read_at_random(20'000, store_bytes);
  region_.sync();
  EXPECT_EQ(counted(Counter::written_bytes), written_before);
  // And that nobody writes any more has been noticed.
  const std::uint64_t protect_faults_before = counted(Counter::protect_faults);
  read_at_random(5'000, store_bytes);
  poke(region_.data(), touch(region_.data()));
  EXPECT_TRUE(comes_to_be([&] { return counted(Counter::protect_faults) == protect_faults_before + 1; }));
}

TEST_P(SmallPages, WhatIsPrefetchedIsInPlaceWithoutAFault) {
  ASSERT_EQ(region_.prefetch({0, 64 * page}).wait(), 64U);
  for (std::uint64_t offset = 0; offset < 64 * page; offset += page) {
    EXPECT_EQ(touch(region_.data() + offset), known_byte(offset));
  }
  EXPECT_EQ(counted(Counter::read_faults) + counted(Counter::write_faults), 0U);
  EXPECT_EQ(counted(Counter::rescues), 0U);
}

TEST_P(SmallPages, OfWhatIsReadAheadOnePageARequestShowsThatItIsUsed) {
  region_.advise(Advice::normal);
  // A reader who is given no processor's time by others waits for nobody: then half of the pages he fetches himself,
  // and the next pass has to show it.
  std::uint64_t prefetched = 0;
  for (int pass = 0; pass < 20 && prefetched <= store_bytes / page / 2; ++pass) {
    const std::uint64_t prefetched_before = counted(Counter::prefetched_pages);
    const std::uint64_t fills_before = counted(Counter::fills);
    for (std::uint64_t offset = 0; offset < store_bytes; offset += page) {
      // Once the stream is known, pages are there before the reader is, if he gives them time.
      for (int wait = 0; wait < 50 && offset >= 64 * page && counted(Counter::fills) - fills_before <= offset / page;
           ++wait) {
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
      ASSERT_EQ(touch(region_.data() + offset), known_byte(offset));
    }
    prefetched = counted(Counter::prefetched_pages) - prefetched_before;
  }
  EXPECT_GT(prefetched, store_bytes / page / 2);
  EXPECT_GT(counted(Counter::prefetch_used), 0U);
  EXPECT_LT(counted(Counter::rescues), counted(Counter::prefetched_pages) / 2);
}

}  // namespace
}  // namespace tiermap
