// Many regions under one cache, and many caches in one process.
#include <random>
#include <thread>

#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class ManyRegionsTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, ManyRegionsTest, every_engine, engine_name);

TEST_P(ManyRegionsTest, EachHasAPageSizeOfItsOwnUnderOneBudget) {
  Cache cache(cache_options(12 * mib));
  std::vector<Region> regions;
  for (const std::uint64_t size : {4 * kib, 16 * kib, 64 * kib, 256 * kib, 1 * mib}) {
    regions.push_back(cache.map(known_store(4 * mib + 100), read_only(size)));
  }
  for (int round = 0; round < 2; ++round) {
    for (const Region& region : regions) {
      EXPECT_TRUE(is_known(bytes_of(region), 0)) << region.page_size_bytes();
      EXPECT_LE(cache.statistics().resident_bytes, 12 * mib);
    }
  }
}

TEST_P(ManyRegionsTest, ThreadsAtWorkInDifferentPageSizesShareTheBudget) {
  Cache cache(cache_options(2 * mib));
  std::vector<Region> regions;
  std::vector<std::shared_ptr<Store>> stores;
  for (const std::uint64_t size : {4 * kib, 32 * kib, 128 * kib}) {
    stores.push_back(known_store(2 * mib));
    regions.push_back(cache.map(stores.back(), read_write(size)));
  }
  std::vector<std::thread> threads;
  for (Region& region : regions) {
    threads.emplace_back([&region] {
      std::mt19937_64 random(1);
      for (int access = 0; access < 4000; ++access) {
        const std::uint64_t offset = random() % region.size();
        if (touch(region.data() + offset) != known_byte(offset)) {
          ADD_FAILURE() << "offset " << offset << " of pages of " << region.page_size_bytes();
          return;
        }
        poke(region.data() + offset, known_byte(offset));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  regions.clear();
  for (const auto& store : stores) {
    EXPECT_TRUE(is_known(read_store(*store, 0, 2 * mib), 0));
  }
}

// So many shards could not have names of 32 bits for the frames of such a budget.
TEST_P(ManyRegionsTest, FramesHaveNamesWhereBudgetAndShardsAreMany) {
  CacheOptions options = cache_options(128 * 1024 * mib);
  options.shards = 64;
  Cache cache(options);
  std::vector<Region> regions;
  for (int number = 0; number < 3; ++number) {
    regions.push_back(cache.map(known_store(16 * mib), read_only(4 * kib)));
  }
  for (int round = 0; round < 2; ++round) {
    for (const Region& region : regions) {
      EXPECT_TRUE(is_known(bytes_of(region), 0));
    }
  }
  EXPECT_EQ(cache.statistics().resident_bytes, 3 * 16 * mib);
  options.budget_bytes = std::uint64_t{16} << 40U;
  EXPECT_THROW(Cache{options}, OptionError);
}

TEST_P(ManyRegionsTest, UnmappingSomeLeavesTheOthersAlone) {
  Cache cache(cache_options(1 * mib));
  std::vector<Region> regions;
  for (int number = 0; number < 20; ++number) {
    regions.push_back(cache.map(known_store(100'000), read_only(4 * kib)));
    EXPECT_TRUE(is_known(bytes_of(regions.back()), 0));
  }
  for (std::size_t number = 0; number < regions.size(); number += 2) {
    regions[number].unmap();
  }
  for (std::size_t number = 1; number < regions.size(); number += 2) {
    EXPECT_TRUE(is_known(bytes_of(regions[number]), 0));
  }
}

TEST_P(ManyRegionsTest, AThousandRegionsAreServed) {
  Cache cache(cache_options(1 * mib));
  const auto store = known_store(16 * kib);
  std::vector<Region> regions;
  for (int number = 0; number < 1000; ++number) {
    regions.push_back(cache.map(store, read_only(4 * kib)));
  }
  for (const Region& region : regions) {
    ASSERT_EQ(touch(region.data() + 5000), known_byte(5000));
  }
}

TEST_P(ManyRegionsTest, OneStoreMappedTwiceReadsAlike) {
  Cache cache(cache_options(1 * mib));
  const auto store = known_store(256 * kib);
  const Region small = cache.map(store, read_only(4 * kib));
  const Region large = cache.map(store, read_only(64 * kib));
  EXPECT_TRUE(is_known(bytes_of(small), 0));
  EXPECT_TRUE(is_known(bytes_of(large), 0));
}

TEST_P(ManyRegionsTest, SeveralCachesKeepBudgetsOfTheirOwn) {
  Cache small(cache_options(256 * kib));
  Cache large(cache_options(2 * mib));
  const auto store = known_store(1 * mib);
  const Region in_small = small.map(store, read_only(4 * kib));
  const Region in_large = large.map(store, read_only(4 * kib));
  EXPECT_TRUE(is_known(bytes_of(in_small), 0));
  EXPECT_TRUE(is_known(bytes_of(in_large), 0));
  EXPECT_LE(small.statistics().resident_bytes, 256 * kib);
  EXPECT_EQ(large.statistics().resident_bytes, 1 * mib);
  EXPECT_EQ(large.statistics()[Counter::evictions], 0U);
}

TEST_P(ManyRegionsTest, ACacheMayGoWhileAnotherWorks) {
  Cache stays(cache_options(1 * mib));
  const Region region = stays.map(known_store(2 * mib), read_only(4 * kib));
  for (int round = 0; round < 5; ++round) {
    Cache goes(cache_options(1 * mib));
    const Region other = goes.map(known_store(100'000), read_only(4 * kib));
    EXPECT_TRUE(is_known(bytes_of(other), 0));
  }
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST(CachesOfDifferentModes, WorkSideBySide) {
  CacheOptions options;
  options.budget_bytes = 1 * mib;
  options.publish_statistics = false;
  options.fault_mode = FaultMode::notify;
  Cache one(options);
  options.fault_mode = FaultMode::self_serving;
  Cache other(options);
  const Region in_one = one.map(known_store(2 * mib), read_only(4 * kib));
  const Region in_other = other.map(known_store(2 * mib), read_only(4 * kib));
  EXPECT_TRUE(is_known(bytes_of(in_one), 0));
  EXPECT_TRUE(is_known(bytes_of(in_other), 0));
}

}  // namespace
}  // namespace tiermap
