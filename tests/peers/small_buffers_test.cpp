// LLNL/umap: a flush or a prefetch with no region crashes; a flush while eviction runs deadlocks; a buffer of one or
// two pages hangs for ever; with few evictable pages it crashes by an unsigned underflow; writes to pinned pages are
// lost.
#include <atomic>
#include <thread>

#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class SmallBuffersTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, SmallBuffersTest, every_engine, engine_name);

TEST_P(SmallBuffersTest, FlushAndPrefetchWithNoRegionAreRefused) {
  Cache cache(cache_options(512 * kib));
  Region none;
  EXPECT_THROW(none.flush(), OptionError);
  EXPECT_THROW(none.prefetch({0, 1}), OptionError);
  cache.set_budget_bytes(1 * mib);
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
}

TEST_P(SmallBuffersTest, FlushWhileEvictionRunsEnds) {
  const auto store = known_store(2 * mib);
  Cache cache(cache_options(256 * kib));
  Region region = cache.map(store, read_write(page));
  std::atomic<bool> stop{false};
  std::vector<std::thread> flushers;
  for (int number = 0; number < 2; ++number) {
    flushers.emplace_back([&, number] {
      while (!stop.load()) {
        number == 0 ? region.flush() : region.sync();
      }
    });
  }
  for (int round = 1; round <= 3; ++round) {
    for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
      poke(region.data() + offset, static_cast<std::byte>(round));
    }
  }
  stop.store(true);
  for (std::thread& flusher : flushers) {
    flusher.join();
  }
  region.sync();
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    EXPECT_EQ(read_store(*store, offset, 1)[0], std::byte{3});
  }
}

TEST_P(SmallBuffersTest, ABufferOfOneOrTwoPagesIsRefusedAndTheLeastWorks) {
  for (const std::uint64_t pages : {1U, 2U}) {
    EXPECT_THROW(
        {
          Cache cache(cache_options(pages * 64 * kib + 4 * kib));
          cache.map(known_store(1 * mib), read_write(64 * kib));
        },
        OptionError);
  }
  Cache cache(cache_options(2 * mib));
  {
    const Region tells_the_least = cache.map(known_store(1 * mib), read_write(64 * kib));
    cache.set_budget_bytes(cache.minimum_budget_bytes());
  }
  const auto store = known_store(2 * mib);
  Region region = cache.map(store, read_write(64 * kib));
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (std::uint64_t offset = number * 1000; offset < region.size(); offset += 4096) {
        EXPECT_EQ(touch(region.data() + offset), known_byte(offset));
        poke(region.data() + offset, std::byte{0});
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  region.unmap();
  for (std::uint64_t offset = 3000; offset < 2 * mib; offset += 4096) {
    EXPECT_EQ(read_store(*store, offset, 1)[0], std::byte{0});
  }
}

TEST_P(SmallBuffersTest, WithFewEvictablePagesItGoesOn) {
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(known_store(2 * mib), read_write(page));
  std::uint64_t pinned = 0;
  try {
    for (;; pinned += page) {
      region.pin({pinned, page});
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOMEM);
  }
  EXPECT_GT(pinned, 512 * kib / 4);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  for (std::uint64_t offset = pinned; offset < region.size(); offset += page) {
    poke(region.data() + offset, known_byte(offset));
  }
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(SmallBuffersTest, WritesToPinnedPagesAreNotLost) {
  const auto store = known_store(2 * mib);
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(store, read_write(page));
  region.pin({3 * page, 2 * page});
  std::memset(region.data() + 3 * page, 9, 2 * page);
  EXPECT_TRUE(is_known(bytes_of(region).subspan(8 * page), 8 * page));
  region.unmap();
  EXPECT_TRUE(is_all(read_store(*store, 3 * page, 2 * page), std::byte{9}));
  EXPECT_TRUE(is_known(read_store(*store, 5 * page, page), 5 * page));
}

TEST_P(SmallBuffersTest, AnUnalignedPrefetchIsServed) {
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(known_store(2 * mib), read_only(page));
  EXPECT_EQ(region.prefetch({page + 5, 3}).wait(), 1U);
  EXPECT_EQ(region.prefetch({page - 1, 2}).wait(), 2U);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

}  // namespace
}  // namespace tiermap
