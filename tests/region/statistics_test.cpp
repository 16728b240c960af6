// Statistics: what is counted adds up, and what is held goes back to nothing.
#include "region/engine_fixture.hpp"
#include "region/settled_statistics.hpp"
#include "store/faulty_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class StatisticsTest : public EngineTest {
 protected:
  static RegionOptions quiet(RegionOptions options) {
    options.advice = Advice::random;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, StatisticsTest, every_engine, engine_name);

TEST_P(StatisticsTest, EachAbsentPageIsAFaultAFillAndItsBytes) {
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(20 * page), quiet(read_only(page)));
  // One access a page: who goes on to a page's next block at once may ask for it while the page is being put in place.
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    touch(region.data() + offset);
  }
  const Statistics now = settled(region);
  EXPECT_EQ(now[Counter::read_faults], 20U);
  EXPECT_EQ(now[Counter::write_faults], 0U);
  EXPECT_EQ(now[Counter::fills], 20U);
  EXPECT_EQ(now[Counter::zero_fills], 0U);
  EXPECT_EQ(now[Counter::read_bytes], 20 * page);
  EXPECT_EQ(now[Counter::moves] + now[Counter::copies], 20U);
  EXPECT_EQ(now.resident_bytes, 20 * page);
  EXPECT_EQ(now.mapped_bytes, 20 * page);
  EXPECT_EQ(now.dirty_bytes, 0U);
  EXPECT_EQ(now.budget_bytes, 4 * mib);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(StatisticsTest, WritesAreWriteFaultsAndFirstWritesToCleanPagesProtectFaults) {
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(20 * page), quiet(read_write(page)));
  for (std::uint64_t number = 0; number < 10; ++number) {
    poke(region.data() + number * page, std::byte{0});
    poke(region.data() + number * page + 1, std::byte{0});
  }
  const Statistics written = settled(region);
  EXPECT_EQ(written[Counter::write_faults], 10U);
  EXPECT_EQ(written[Counter::read_faults], 0U);
  EXPECT_EQ(written[Counter::protect_faults], 0U);
  EXPECT_EQ(written.dirty_bytes, 10 * page);
  for (std::uint64_t number = 10; number < 20; ++number) {
    touch(region.data() + number * page);
  }
  EXPECT_EQ(settled(region).dirty_bytes, 10 * page);
  for (std::uint64_t number = 10; number < 20; ++number) {
    poke(region.data() + number * page, std::byte{0});
  }
  const Statistics now = settled(region);
  EXPECT_EQ(now[Counter::read_faults], 10U);
  EXPECT_EQ(now[Counter::write_faults], 10U);
  EXPECT_EQ(now[Counter::protect_faults], 10U);
  EXPECT_EQ(now.dirty_bytes, 20 * page);
}

TEST_P(StatisticsTest, FaultsAreFillsRescuesOrCoalesced) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(4 * mib), quiet(read_only(page)));
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
      touch(region.data() + offset);
      touch(region.data() + offset / 4);
    }
  }
  const Statistics now = settled(region);
  EXPECT_GT(now[Counter::read_faults], 500U);
  // A fault that finds the page in another's hands waits, and then needs one of the others or nothing more.
  const std::uint64_t served = now[Counter::fills] + now[Counter::rescues];
  EXPECT_LE(served, now[Counter::read_faults]);
  EXPECT_GE(served + now[Counter::coalesced_faults], now[Counter::read_faults]);
  // What came and did not go is there.
  EXPECT_EQ((now[Counter::fills] - now[Counter::evictions]) * page, now.resident_bytes);
}

TEST_P(StatisticsTest, WhatWasUnmappedIsRescuedWithoutReading) {
  if (GetParam().placement == Placement::copy) {
    GTEST_SKIP() << "pages that were copied in are dropped, not unmapped";
  }
  constexpr std::uint64_t large_page = 64 * kib;  // Small ones are hardly ever kept unmapped.
  const auto store = std::make_shared<FaultyStore>(known_store(8 * mib));
  CacheOptions options = cache_options(4 * mib);
  options.policy = "segmented-fifo";
  Cache cache(options);
  const Region region = cache.map(store, quiet(read_only(large_page)));
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t offset = 0; offset < 4 * mib - 8 * large_page; offset += large_page) {
      touch(region.data() + offset);
    }
    // The evictors unmap in their own time; what is touched after that is rescued.
    EXPECT_TRUE(comes_to_be([&] { return region.statistics()[Counter::unmaps] > 0; }));
  }
  const Statistics now = settled(region);
  EXPECT_GT(now[Counter::rescues], 0U);
  EXPECT_EQ(now[Counter::fills], store->reads());
}

TEST_P(StatisticsTest, GaugesGoBackToNothingAtUnmapAndTheCacheRemembersTheCounts) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(4 * mib), quiet(read_write(page)));
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    poke(region.data() + offset, std::byte{0});
  }
  region.unmap();
  const Statistics now = cache.statistics();
  EXPECT_EQ(now.resident_bytes, 0U);
  EXPECT_EQ(now.mapped_bytes, 0U);
  EXPECT_EQ(now.dirty_bytes, 0U);
  EXPECT_EQ(now[Counter::write_faults], 256U);
  EXPECT_EQ(now[Counter::write_backs], 256U);
}

TEST_P(StatisticsTest, TheCacheIsTheSumOfItsRegions) {
  Cache cache(cache_options(1 * mib));
  const Region one = cache.map(known_store(2 * mib), quiet(read_only(page)));
  const Region other = cache.map(known_store(1 * mib), quiet(read_write(4 * kib)));
  EXPECT_TRUE(is_known(bytes_of(one), 0));
  std::memset(other.data(), 1, other.size());
  // Evictors may be at work between the looks.
  EXPECT_TRUE(comes_to_be([&] {
    const Statistics of_one = one.statistics();
    const Statistics of_other = other.statistics();
    const Statistics whole = cache.statistics();
    for (std::size_t counter = 0; counter < counter_count; ++counter) {
      if (whole.counters[counter] != of_one.counters[counter] + of_other.counters[counter]) {
        return false;
      }
    }
    return whole.resident_bytes == of_one.resident_bytes + of_other.resident_bytes &&
           whole.dirty_bytes == of_one.dirty_bytes + of_other.dirty_bytes;
  }));
}

TEST_P(StatisticsTest, AByteWrittenIntoALargePageWritesBackLittle) {
  const auto store = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(16 * mib));
  Cache cache(cache_options(80 * mib));
  Region region = cache.map(store, quiet(read_write(8 * mib)));
  touch(region.data());
  poke(region.data() + 3 * mib, std::byte{1});
  region.sync();
  EXPECT_EQ(region.statistics()[Counter::write_backs], 1U);
  EXPECT_LE(region.statistics()[Counter::written_bytes], 32 * kib);
  EXPECT_GE(region.statistics()[Counter::written_bytes], 1U);
  EXPECT_LE(store->written_bytes(), 32 * kib);
  EXPECT_EQ(read_store(*store, 3 * mib, 1)[0], std::byte{1});
  // Also where the first access was the write.
  poke(region.data() + 8 * mib + 5, std::byte{1});
  region.sync();
  EXPECT_LE(region.statistics()[Counter::written_bytes], 64 * kib);
  // And where the page was written back before.
  poke(region.data() + 7 * mib, std::byte{1});
  region.sync();
  EXPECT_LE(region.statistics()[Counter::written_bytes], 96 * kib);
}

TEST_P(StatisticsTest, WritingWhatIsThereAlreadyWritesNothingBack) {
  const auto store = std::make_shared<FaultyStore>(known_store(1 * mib));
  Cache cache(cache_options(16 * mib));
  Region region = cache.map(store, quiet(read_write(256 * kib)));
  for (std::uint64_t offset = 0; offset < region.size(); offset += 1000) {
    poke(region.data() + offset, known_byte(offset));
  }
  region.sync();
  EXPECT_EQ(store->writes(), 0U);
  EXPECT_EQ(region.statistics()[Counter::written_bytes], 0U);
}

TEST_P(StatisticsTest, EveryFaultThatReadsIsTimed) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(2 * mib), quiet(read_only(page)));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_TRUE(comes_to_be([&] {
    const Statistics now = region.statistics();
    return now.stages[static_cast<std::size_t>(Stage::total)].count() == now[Counter::fills];
  }));
  const LatencyHistogram total = region.statistics().stages[static_cast<std::size_t>(Stage::total)];
  EXPECT_GT(total.quantile_nanoseconds(0.5), 0U);
  EXPECT_LE(total.quantile_nanoseconds(0.5), total.quantile_nanoseconds(0.99));
}

TEST_P(StatisticsTest, ErrorsAreCounted) {
  const auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, quiet(read_write(page)));
  poke(region.data(), std::byte{0});
  store->on_read([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + page); }), SIGBUS);
  EXPECT_ANY_THROW(region.sync());
  EXPECT_EQ(region.statistics()[Counter::read_errors], 1U);
  EXPECT_EQ(region.statistics()[Counter::write_errors], 1U);
  store->on_write({});
}

TEST_P(StatisticsTest, WithRoomToPlanAheadAFaultSeldomWaitsForAnEviction) {
  CacheOptions options = cache_options(4 * mib);
  options.high_watermark_percent = 80;
  options.low_watermark_percent = 60;
  Cache cache(options);
  const Region region = cache.map(known_store(32 * mib), quiet(read_write(page)));
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    poke(region.data() + offset, std::byte{0});
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // A program that works between its accesses.
  }
  const Statistics now = cache.statistics();
  EXPECT_EQ(now[Counter::write_faults], 2048U);
  EXPECT_LE(now[Counter::frame_waits], 2048U / 10);
}

}  // namespace
}  // namespace tiermap
