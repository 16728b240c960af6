// Read-ahead: streams are fetched before they are asked for, and nothing is where access is random.
#include <algorithm>
#include <random>
#include <vector>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;
constexpr std::uint64_t pages = 256;

// Slower than the reader, as stores are: one in memory would be read by the fault itself before a filler wakes.
std::shared_ptr<Store> slow_store() {
  auto store = std::make_shared<FaultyStore>(known_store(pages * page));
  store->on_read([](const FaultyStore::Call&) { return FaultyStore::delay(std::chrono::milliseconds(1)); });
  return store;
}

class ReadAheadTest : public EngineTest {
 protected:
  Cache cache_{cache_options(2 * mib)};
  Region region_ = cache_.map(slow_store(), read_only(page));
  std::uint64_t value(Counter counter) const { return region_.statistics()[counter]; }
  void read(std::uint64_t number) const { EXPECT_EQ(touch(region_.data() + number * page), known_byte(number * page)); }
};
INSTANTIATE_TEST_SUITE_P(Engines, ReadAheadTest, every_engine, engine_name);

TEST_P(ReadAheadTest, ASequentialReaderFindsMostPagesFetched) {
  for (std::uint64_t number = 0; number < pages; ++number) {
    read(number);
  }
  EXPECT_GE(value(Counter::prefetched_pages), pages / 2);
  EXPECT_LE(value(Counter::fills), pages + 32) << "pages were read twice";
}

TEST_P(ReadAheadTest, ABackwardReaderToo) {
  for (std::uint64_t number = pages; number-- > 0;) {
    read(number);
  }
  EXPECT_GE(value(Counter::prefetched_pages), pages / 2);
}

TEST_P(ReadAheadTest, AStridedReaderGetsItsPagesAndNoOthers) {
  for (std::uint64_t number = 0; number < pages; number += 4) {
    read(number);
  }
  EXPECT_GE(value(Counter::prefetched_pages), pages / 4 / 2);
  EXPECT_LE(value(Counter::fills), pages / 4 + 8);
}

TEST_P(ReadAheadTest, TwoStreamsAtOnceAreTold) {
  for (std::uint64_t number = 0; number < pages / 2; ++number) {
    read(number);
    read(pages - 1 - number);
  }
  EXPECT_GE(value(Counter::prefetched_pages), pages / 2);
}

TEST_P(ReadAheadTest, RandomAccessFetchesNothing) {
  std::mt19937_64 random(1);
  for (int access = 0; access < 500; ++access) {
    read(random() % pages);
  }
  EXPECT_LE(value(Counter::prefetched_pages), 10U);
}

// As of data that is read in order again and again, of which memory holds a part.
TEST_P(ReadAheadTest, AReaderWhoFindsPagesHereAndThereInMemoryIsStillAStream) {
  constexpr std::uint64_t read_pages = 112;
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> there;
  std::uint64_t missing = 0;
  for (std::uint64_t number = 0; number < read_pages; ++missing) {
    for (std::uint64_t gap = 1 + random() % 4; gap > 0 && ++number < read_pages; --gap) {
      there.push_back(number);
    }
    ++number;
  }
  std::ranges::shuffle(there, random);
  for (const std::uint64_t number : there) {
    read(number);
  }
  const std::uint64_t before = value(Counter::prefetched_pages);
  for (std::uint64_t number = 0; number < read_pages; ++number) {
    read(number);
  }
  EXPECT_GE(value(Counter::prefetched_pages) - before, missing / 2);
}

TEST_P(ReadAheadTest, ZeroTurnsItOff) {
  RegionOptions options = read_only(page);
  options.read_ahead_bytes = 0;
  const Region region = cache_.map(slow_store(), options);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(region.statistics()[Counter::prefetched_pages], 0U);
}

TEST_P(ReadAheadTest, NeverMoreIsAheadThanWasAllowed) {
  RegionOptions options = read_only(page);
  options.read_ahead_bytes = 8 * page;
  const Region region = cache_.map(slow_store(), options);
  for (std::uint64_t number = 0; number < 64; ++number) {
    touch(region.data() + number * page);
  }
  const Statistics now = region.statistics();
  EXPECT_LE(now[Counter::fills], 64U + 8U);
}

TEST_P(ReadAheadTest, StopsAtTheRegionsEnd) {
  RegionOptions options = read_only(page, 16 * page);
  const Region region = cache_.map(slow_store(), options);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_LE(region.statistics()[Counter::fills], 16U);
}

}  // namespace
}  // namespace tiermap
