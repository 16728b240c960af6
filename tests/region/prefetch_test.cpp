// prefetch(): any set of pages, in the background, with a completion to wait on.
#include <future>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

std::uint64_t faults(const Region& region) {
  const Statistics now = region.statistics();
  return now[Counter::read_faults] + now[Counter::write_faults];
}

/// Of a page whose store does not answer yet.
struct StalledPrefetch {
  explicit StalledPrefetch(const CacheOptions& options) : cache(options) {
    store->on_read([](const FaultyStore::Call&) { return FaultyStore::stall(); });
    region = cache.map(store, read_only(page));
    completion = region.prefetch({0, page});
    EXPECT_TRUE(comes_to_be([&] { return store->stalled() == 1; }));
  }
  void let_store_answer() const {
    store->on_read({});
    store->release();
  }

  std::shared_ptr<FaultyStore> store = std::make_shared<FaultyStore>(known_store(8 * page));
  Cache cache;
  Region region;
  Prefetch completion;
};

class PrefetchTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, PrefetchTest, every_engine, engine_name);

TEST_P(PrefetchTest, BringsARangeIntoMemory) {
  const auto store = std::make_shared<FaultyStore>(known_store(64 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_only(page));
  EXPECT_EQ(region.prefetch({0, 32 * page}).wait(), 32U);
  EXPECT_EQ(region.statistics().resident_bytes, 32 * page);
  const std::uint64_t reads = store->reads();
  EXPECT_TRUE(is_known(bytes_of(region).first(32 * page), 0));
  EXPECT_EQ(store->reads(), reads) << "a page was read again though it had been fetched";
}

TEST_P(PrefetchTest, ScatteredRangesAreFetchedAndNothingElse) {
  const auto store = std::make_shared<FaultyStore>(known_store(64 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_only(page));
  const std::vector<ByteRange> ranges = {{40 * page + 5, 10}, {3 * page, 2 * page}, {60 * page - 1, 2}, {9 * page, 1}};
  EXPECT_EQ(region.prefetch(ranges).wait(), 6U);
  EXPECT_EQ(region.statistics()[Counter::fills], 6U);
  EXPECT_EQ(store->read_bytes(), 6 * page);
  for (const std::uint64_t fetched : std::initializer_list<std::uint64_t>{40U, 3U, 4U, 59U, 60U, 9U}) {
    EXPECT_TRUE(is_known(bytes_of(region).subspan(fetched * page, page), fetched * page));
  }
  EXPECT_EQ(store->read_bytes(), 6 * page);
}

TEST_P(PrefetchTest, ReturnsBeforeTheStoreHasAnswered) {
  StalledPrefetch stalled(cache_options(4 * mib));
  const Prefetch& completion = stalled.completion;
  EXPECT_FALSE(completion.done());
  EXPECT_FALSE(completion.wait_for(std::chrono::milliseconds(1)));
  stalled.let_store_answer();
  EXPECT_TRUE(comes_to_be([&] { return completion.wait_for(std::chrono::milliseconds(100)); }));
  EXPECT_EQ(completion.wait(), 1U);
  EXPECT_TRUE(completion.done());
}

TEST_P(PrefetchTest, IsNotWaitedForForATimeThatIsOver) {
  StalledPrefetch stalled(cache_options(4 * mib));
  const Prefetch& completion = stalled.completion;
  std::future<bool> done = std::async(std::launch::async, [&] { return completion.wait_for(-std::chrono::hours(1)); });
  EXPECT_EQ(done.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  stalled.let_store_answer();
  EXPECT_FALSE(done.get());
  EXPECT_TRUE(completion.wait_for(std::chrono::milliseconds::max()));
}

TEST_P(PrefetchTest, MoreThanMemoryHoldsEndsAndLosesNothing) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(8 * mib), read_only(page));
  const std::uint64_t fetched = region.prefetch({0, 8 * mib}).wait();
  EXPECT_GT(fetched, 0U);
  EXPECT_LE(fetched * page, 1 * mib);
  // What was fetched is the beginning, as asked, and is still there.
  const std::uint64_t fills = region.statistics()[Counter::fills];
  EXPECT_TRUE(is_known(bytes_of(region).first(fetched / 2 * page), 0));
  EXPECT_EQ(region.statistics()[Counter::fills], fills);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(PrefetchTest, PagesThatAreThereCountAndAreNotReadAgain) {
  const auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_only(page));
  EXPECT_EQ(touch(region.data() + 2 * page), known_byte(2 * page));
  EXPECT_EQ(region.prefetch({0, 4 * page}).wait(), 4U);
  EXPECT_EQ(store->reads(), 4U);
  EXPECT_EQ(region.prefetch({0, 4 * page}).wait(), 4U);
  EXPECT_EQ(store->reads(), 4U);
}

TEST_P(PrefetchTest, KeepsWhatWasWritten) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(8 * page), read_write(page));
  poke(region.data() + page, std::byte{0});
  region.prefetch({0, 8 * page}).wait();
  EXPECT_EQ(touch(region.data() + page), std::byte{0});
}

TEST_P(PrefetchTest, APageThatCannotBeReadIsGivenUpAndTheAccessTellsTheError) {
  const auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  store->on_read([](const FaultyStore::Call& call) {
    return call.offset <= 3 * page && call.offset + call.bytes > 3 * page ? FaultyStore::fail(EIO)
                                                                          : FaultyStore::pass();
  });
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_only(page));
  EXPECT_EQ(region.prefetch({0, 8 * page}).wait(), 7U);
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 3 * page); }), SIGBUS);
  EXPECT_TRUE(is_known(bytes_of(region).first(3 * page), 0));
}

TEST_P(PrefetchTest, NothingAtAllIsDoneAtOnce) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(8 * page), read_only(page));
  EXPECT_EQ(region.prefetch(std::span<const ByteRange>()).wait(), 0U);
  EXPECT_EQ(region.prefetch({5, 0}).wait(), 0U);
  EXPECT_TRUE(Prefetch().done());
  EXPECT_EQ(Prefetch().wait(), 0U);
}

TEST_P(PrefetchTest, ARangeOutsideIsRefusedAndNothingFetched) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(8 * page), read_only(page));
  const std::vector<ByteRange> ranges = {{0, page}, {7 * page, 2 * page}};
  try {
    region.prefetch(ranges);
    FAIL() << "a range past the end was taken";
  } catch (const OptionError& error) {
    EXPECT_EQ(error.code().value(), ERANGE);
  }
  EXPECT_EQ(region.statistics()[Counter::fills], 0U);
}

TEST_P(PrefetchTest, UnmappingEndsAPrefetchUnderWay) {
  const auto store = std::make_shared<FaultyStore>(known_store(64 * page));
  store->on_read([](const FaultyStore::Call&) { return FaultyStore::delay(std::chrono::milliseconds(1)); });
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_only(page));
  const Prefetch completion = region.prefetch({0, 64 * page});
  region.unmap();
  completion.wait();
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
}

TEST_P(PrefetchTest, WhatWasFetchedAndUsedIsCounted) {
  constexpr std::uint64_t large_page = 64 * kib;  // Small ones are in place at once.
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_only(large_page);
  options.advice = Advice::random;
  Region region = cache.map(known_store(16 * large_page), options);
  region.prefetch({0, 8 * large_page}).wait();
  EXPECT_EQ(region.statistics()[Counter::prefetched_pages], 8U);
  for (std::uint64_t number = 0; number < 4; ++number) {
    EXPECT_EQ(touch(region.data() + number * large_page), known_byte(number * large_page));
  }
  if (GetParam().placement !=
      Placement::copy) {  // A page that was copied in is mapped at once: its use raises no fault.
    EXPECT_TRUE(comes_to_be([&] { return region.statistics()[Counter::prefetch_used] == 4; }));
    EXPECT_EQ(faults(region), 4U);
  }
}

}  // namespace
}  // namespace tiermap
