// resize(): longer and shorter in place, with and without address space kept for it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "observe/publication.hpp"
#include "region/engine_fixture.hpp"
#include "region/surrounded_gap.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class ResizeTest : public EngineTest {
 protected:
  TemporaryDirectory directory_ = shared_memory_directory();
  std::string path_ = directory_ / "data";
};
INSTANTIATE_TEST_SUITE_P(Engines, ResizeTest, every_engine, engine_name);

TEST_P(ResizeTest, GrowsIntoWhatWasReserved) {
  write_known_file(path_, 3 * page + 10);
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page);
  options.reserve_bytes = 64 * page;
  Region region = cache.map(path_, options);
  std::byte* const data = region.data();
  poke(data + 3 * page + 9, std::byte{1});
  region.resize(60 * page + 7);
  EXPECT_EQ(region.data(), data);
  EXPECT_EQ(region.size(), 60 * page + 7);
  EXPECT_TRUE(is_known(bytes_of(region).first(3 * page + 9), 0));
  EXPECT_EQ(touch(data + 3 * page + 9), std::byte{1});
  EXPECT_TRUE(is_all(bytes_of(region).subspan(3 * page + 10), std::byte{0}));
  poke(data + 60 * page + 6, std::byte{2});
  region.unmap();
  const std::vector<std::byte> content = read_bytes(path_);
  ASSERT_EQ(content.size(), 60 * page + 7);
  EXPECT_EQ(content[3 * page + 9], std::byte{1});
  EXPECT_EQ(content.back(), std::byte{2});
}

TEST_P(ResizeTest, GrowsByLittleAgainAndAgain) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page, 1);
  options.reserve_bytes = 8 * page;
  Region region = cache.map(path_, options);
  poke(region.data(), known_byte(0));
  for (std::uint64_t length = 2; length < 8 * page; length += 1237) {
    const std::uint64_t before = region.size();
    region.resize(length);
    for (std::uint64_t offset = before; offset < length; ++offset) {
      poke(region.data() + offset, known_byte(offset));
    }
    ASSERT_TRUE(is_known(bytes_of(region), 0)) << length;
  }
  const std::uint64_t length = region.size();
  region.unmap();
  EXPECT_EQ(read_bytes(path_).size(), length);
  EXPECT_TRUE(is_known(read_bytes(path_), 0));
}

TEST_P(ResizeTest, BeyondTheReserveNeedsFreeNeighbours) {
  write_known_file(path_, 4 * page);
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page);
  const SurroundedGap gap(4 * page, 8 * page, page);
  options.address = gap.data();
  Region region = cache.map(path_, options);
  poke(region.data() + 4 * page - 1, std::byte{0});
  try {
    region.resize(6 * page);
    FAIL() << "the region grew over its neighbour";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOMEM);
  }
  EXPECT_EQ(region.size(), 4 * page);
  EXPECT_TRUE(is_known(bytes_of(region).first(4 * page - 1), 0));
  EXPECT_EQ(touch(region.data() + 4 * page - 1), std::byte{0});
  // With the neighbour gone it can.
  ::munmap(gap.behind(), 8 * page);
  region.resize(6 * page);
  EXPECT_EQ(touch(region.data() + 6 * page - 1), std::byte{0});
}

TEST_P(ResizeTest, ShrinkingWritesWhatItCutsOffAndTheStoreKeepsItsSize) {
  write_known_file(path_, 10 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(path_, read_write(page));
  std::memset(region.data(), 5, region.size());
  region.resize(4 * page + 100);
  EXPECT_EQ(region.size(), 4 * page + 100);
  EXPECT_TRUE(is_all(bytes_of(region), std::byte{5}));
  const std::vector<std::byte> content = read_bytes(path_);
  EXPECT_EQ(content.size(), 10 * page);
  EXPECT_TRUE(is_all(std::span(content).subspan(4 * page), std::byte{5}));
  region.unmap();
  EXPECT_EQ(read_bytes(path_).size(), 10 * page);
  EXPECT_TRUE(is_all(read_bytes(path_), std::byte{5}));
}

TEST_P(ResizeTest, ShrinkingFreesMemoryAndAddresses) {
  write_known_file(path_, 10 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(path_, read_write(page));
  std::memset(region.data(), 5, region.size());
  region.resize(page);
  EXPECT_LE(cache.statistics().resident_bytes, page);
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 2 * page); }), SIGSEGV);
}

TEST_P(ResizeTest, ShrinksAndGrowsAgain) {
  write_known_file(path_, 10 * page + 5);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(path_, read_write(page));
  for (const std::uint64_t length : {3 * page + 1, 10 * page + 5, std::uint64_t{1}, 7 * page, 10 * page}) {
    region.resize(length);
    EXPECT_TRUE(is_known(bytes_of(region), 0)) << length;
  }
}

TEST_P(ResizeTest, WritersOfWhatStaysLoseNothing) {
  write_known_file(path_, 4 * page);
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page, 3 * page + 8192);
  options.reserve_bytes = 16 * page;
  Region region = cache.map(path_, options);
  // In the last page that stays, where a resize has the most to do.
  auto* const word = reinterpret_cast<volatile std::uint64_t*>(region.data() + 3 * page);
  std::atomic<bool> stop{false};
  std::uint64_t written = 0;
  std::uint64_t lost_at = 0;
  std::thread writer([&] {
    do {
      *word = ++written;
      if (*word != written) {
        lost_at = written;
      }
    } while (!stop.load(std::memory_order_relaxed) && lost_at == 0);
  });
  for (int round = 0; round < 60; ++round) {
    region.resize(3 * page + 4097 + static_cast<std::uint64_t>(round) % 3 * 3000);
    region.resize(6 * page);
    region.resize(3 * page + 4096);
  }
  stop.store(true);
  writer.join();
  EXPECT_EQ(lost_at, 0U);
  EXPECT_EQ(*word, written);
  region.unmap();
  std::uint64_t stored = 0;
  std::memcpy(&stored, read_bytes(path_).data() + 3 * page, sizeof stored);
  EXPECT_EQ(stored, written);
}

TEST_P(ResizeTest, ReadersOfWhatStaysAreServed) {
  write_known_file(path_, 8 * page);
  Cache cache(cache_options(256 * kib));
  RegionOptions options = read_only(page, 3 * page + 8192);
  options.reserve_bytes = 16 * page;
  Region region = cache.map(path_, options);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      for (std::uint64_t offset = 0; offset < 3 * page + 4096; offset += 511) {
        wrong += touch(region.data() + offset) != known_byte(offset);
      }
    }
  });
  for (int round = 0; round < 100; ++round) {
    region.resize(7 * page + 100);
    region.resize(3 * page + 4096);
  }
  stop.store(true);
  reader.join();
  EXPECT_EQ(wrong.load(), 0U);
}

// In pages of all sizes.
TEST_P(ResizeTest, WritersAndReadersOfWhatWasThereBeforeItGrowsLoseNothing) {
  constexpr std::uint64_t block = 4 * kib;
  constexpr std::uint64_t threads = 2;
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Cache cache(cache_options(36 * mib));
  RegionOptions options{.access = Access::read_write, .length = 100 * block};
  options.reserve_bytes = 64 * mib;
  Region region = cache.map(path_, options);
  std::byte* const data = region.data();
  std::atomic<std::uint64_t> blocks{100};
  std::uint64_t stores[threads] = {};
  std::vector<std::thread> others;
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    others.emplace_back([&, writer] {
      std::mt19937_64 random(seed + writer);
      for (std::uint64_t now = 0; (now = blocks.load()) != 0; ++stores[writer]) {
        // Half of them near the end.
        const std::uint64_t at = random() % 2 == 0 ? now - 1 - random() % 20 : random() % now;
        auto* cell = reinterpret_cast<volatile std::uint64_t*>(data + at * block + writer * 8);
        *cell = *cell + 1;
      }
    });
  }
  others.emplace_back([&] {
    for (std::uint64_t at = 0, now = 0; (now = blocks.load()) != 0; at = (at + 1) % now) {
      touch(data + at % now * block + 64);
    }
  });
  std::mt19937_64 random(seed + threads);
  std::uint64_t last = 100;
  while (last < 64 * mib / block) {
    const std::uint64_t next = std::min(last + 1 + random() % (random() % 4 == 0 ? 600 : 40), 64 * mib / block);
    region.resize(next * block - random() % 100);
    region.resize(next * block);
    blocks.store(last = next);
  }
  blocks.store(0);
  for (std::thread& other : others) {
    other.join();
  }
  for (std::uint64_t writer = 0; writer < threads; ++writer) {
    std::uint64_t sum = 0;
    for (std::uint64_t at = 0; at < last; ++at) {
      sum += *reinterpret_cast<volatile std::uint64_t*>(data + at * block + writer * 8);
    }
    EXPECT_EQ(sum, stores[writer]);
  }
}

TEST_P(ResizeTest, AStoreThatCannotGrowIsToldAtOnce) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page);
  options.reserve_bytes = 16 * page;
  Region region = cache.map(known_store(4 * page), options);
  EXPECT_THROW(region.resize(5 * page), OptionError);
  EXPECT_EQ(region.size(), 4 * page);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ResizeTest, AReadOnlyRegionGrowsOverZeros) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_only(page);
  options.reserve_bytes = 16 * page;
  Region region = cache.map(known_store(4 * page), options);
  region.resize(5 * page);
  EXPECT_TRUE(is_known(bytes_of(region).first(4 * page), 0));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(4 * page), std::byte{0}));
}

TEST_P(ResizeTest, ToNothingOrMoreThanThereCanBeIsRefused) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(4 * page), read_only(page));
  EXPECT_THROW(region.resize(0), OptionError);
  // These wrap when they are rounded up, or added to where the region begins.
  EXPECT_THROW(region.resize(~std::uint64_t{0}), OptionError);
  EXPECT_THROW(region.resize((std::uint64_t{1} << 46) + 1), OptionError);
  region.resize(4 * page);  // To what it is: nothing to do.
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ResizeTest, ShrinkingThatCannotWriteLeavesTheRegionAsItWas) {
  const auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 5, region.size());
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(ENOSPC); });
  EXPECT_THROW(region.resize(page), Error);
  EXPECT_EQ(region.size(), 8 * page);
  EXPECT_TRUE(is_all(bytes_of(region), std::byte{5}));
  store->on_write({});
  region.resize(page);
  EXPECT_TRUE(is_all(read_store(*store, page, 7 * page), std::byte{5}));
}

TEST_P(ResizeTest, APinnedPageThatIsCutAndCannotBeReadAgainStopsNothing) {
  const auto store = std::make_shared<FaultyStore>(known_store(8 * page));
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page, 4 * page);
  options.reserve_bytes = 8 * page;
  Region region = cache.map(store, options);
  region.pin({page, page});
  store->on_read([](auto) { return FaultyStore::fail(EIO); });
  region.resize(page + 100);
  EXPECT_EQ(region.size(), page + 100);
  store->on_read([](auto) { return FaultyStore::pass(); });
  region.resize(8 * page);
  EXPECT_EQ(region.prefetch({4 * page, page}).wait(), 1U);
  EXPECT_EQ(touch(region.data() + 5 * page), known_byte(5 * page));
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { touch(region.data() + page); }) == 0; }));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ResizeTest, OthersSeeTheNewLength) {
  const auto seen = [](const std::string& name) -> std::uint64_t {
    for (const ObservedCache& cache : observe_caches()) {
      if (cache.name == name && cache.process == ::getpid() && !cache.regions.empty()) {
        return cache.regions.front().length_bytes;
      }
    }
    return 0;
  };
  CacheOptions cache_options = ResizeTest::cache_options(4 * mib);
  cache_options.publish_statistics = true;
  cache_options.name = "resized";
  Cache cache(cache_options);
  RegionOptions options = read_only(page, 4 * page);
  options.reserve_bytes = 8 * page;
  Region region = cache.map(known_store(8 * page), options);
  for (const std::uint64_t length : {8 * page, page + 100}) {
    region.resize(length);
    EXPECT_EQ(seen("resized"), length);
  }
}

TEST_P(ResizeTest, PinnedPagesThatAreCutOffArePinnedNoMore) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(known_store(16 * page), read_only(page));
  const std::uint64_t before = cache.minimum_budget_bytes();
  region.pin({0, 16 * page});
  region.resize(2 * page);
  region.unpin({0, 2 * page});
  EXPECT_EQ(cache.minimum_budget_bytes(), before);
}

}  // namespace
}  // namespace tiermap
