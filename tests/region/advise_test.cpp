// advise(): each advice does what it says, and none changes what the bytes are.
#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class AdviseTest : public EngineTest {
 protected:
  std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(known_store(4 * mib));
};
INSTANTIATE_TEST_SUITE_P(Engines, AdviseTest, every_engine, engine_name);

TEST_P(AdviseTest, NoAdviceChangesABytes) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_write(page));
  poke(region.data() + 5, std::byte{0});
  for (const Advice advice : {Advice::normal, Advice::sequential, Advice::random, Advice::will_need, Advice::dont_need,
                              Advice::cold, Advice::hot}) {
    region.advise(advice);
    region.advise(advice, {page, 3 * page});
    region.advise(advice, {page, 0});
    EXPECT_TRUE(is_known(bytes_of(region).first(5), 0));
    EXPECT_EQ(touch(region.data() + 5), std::byte{0});
    EXPECT_TRUE(is_known(bytes_of(region).subspan(6), 6));
  }
}

TEST_P(AdviseTest, WillNeedFetchesInTheBackground) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.advise(Advice::will_need, {0, 8 * page});
  EXPECT_TRUE(comes_to_be([&] { return region.statistics().resident_bytes == 8 * page; }));
}

TEST_P(AdviseTest, DontNeedWritesWhatIsDirtyAndFreesTheMemory) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_write(page));
  region.advise(Advice::random);
  std::memset(region.data(), 3, 8 * page);
  region.advise(Advice::dont_need, {0, 8 * page});
  EXPECT_EQ(region.statistics().resident_bytes, 0U);
  EXPECT_EQ(region.statistics().dirty_bytes, 0U);
  EXPECT_TRUE(is_all(read_store(*store_, 0, 8 * page), std::byte{3}));
  EXPECT_TRUE(is_all(bytes_of(region).first(8 * page), std::byte{3}));
}

// The store may have it by now: a file that another process has made longer.
TEST_P(AdviseTest, DontNeedLetsWhatCouldNotBeReadBeTriedAgain) {
  store_->on_read([](auto) { return FaultyStore::fail(EIO); });
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + page); }), SIGBUS);
  store_->on_read([](auto) { return FaultyStore::pass(); });
  bool there = false;
  // Whoever read in vain may not be done with the page yet. By the tenth time it is not lifted by itself.
  for (int times = 0; times < 10 && !there; ++times) {
    region.advise(Advice::dont_need);
    there = signal_raised_by([&] { touch(region.data() + page); }) == 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(there ? 0 : 2));
  }
  EXPECT_TRUE(there);
}

// Of this process: what is in memory and of no file.
std::uint64_t anonymous_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) {
      return std::stoull(line.substr(8)) * kib;
    }
  }
  return 0;
}

// What was written is moved out into frames before it is dropped, and some of what was read lies there already.
TEST_P(AdviseTest, DontNeedGivesTheMemoryToTheSystem) {
  constexpr std::uint64_t size = 16 * mib;
  const auto store = known_store(size);
  for (const std::uint64_t page_bytes : {4 * kib, 64 * kib, 2 * mib}) {
    for (const bool writes : {false, true}) {
      Cache cache(cache_options(size + size / 4));
      Region region = cache.map(store, writes ? read_write(page_bytes) : read_only(page_bytes));
      for (std::uint64_t offset = 0; offset < size; offset += 4 * kib) {
        const std::byte found = touch(region.data() + offset);
        if (writes) {
          poke(region.data() + offset, found);
        }
      }
      [[maybe_unused]] const std::uint64_t full = anonymous_bytes();
      region.advise(Advice::dont_need);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // Their own memory comes and goes.
      // Some pages of 2 MiB may be free beside those that are dropped, or still on their way.
      EXPECT_LT(anonymous_bytes() + size / 2, full) << page_bytes << (writes ? " written" : " read");
#endif
      EXPECT_TRUE(is_known(bytes_of(region), 0));
    }
  }
}

TEST_P(AdviseTest, RandomReadsNothingAhead) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.advise(Advice::random);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(region.statistics()[Counter::prefetched_pages], 0U);
}

TEST_P(AdviseTest, SequentialReadsAheadFromTheFirstPageOn) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.advise(Advice::sequential);
  touch(region.data());
  EXPECT_TRUE(comes_to_be([&] { return region.statistics()[Counter::prefetched_pages] > 0; }));
}

// How many of 32 pages are in memory still after another region was read from end to end.
std::uint64_t kept_beside_a_scan(const CacheOptions& options, const std::shared_ptr<FaultyStore>& store,
                                 Advice advice) {
  Cache cache(options);
  Region used = cache.map(store, read_only(page));
  used.advise(Advice::random);
  const auto look = [&] {
    for (std::uint64_t offset = 0; offset < 32 * page; offset += page) {
      touch(used.data() + offset);
    }
  };
  look();
  Region scanned = cache.map(store, read_only(page));
  scanned.advise(advice);
  EXPECT_TRUE(is_known(bytes_of(scanned), 0));
  const std::uint64_t fills = used.statistics()[Counter::fills];
  look();
  return 32 - (used.statistics()[Counter::fills] - fills);
}

TEST_P(AdviseTest, SequentialGivesUpWhatIsBehindTheReaderFirst) {
  CacheOptions options = cache_options(2 * mib);
  options.policy = "fifo";
  EXPECT_LT(kept_beside_a_scan(options, store_, Advice::normal), 8U) << "first in, first out";
  EXPECT_GT(kept_beside_a_scan(options, store_, Advice::sequential), 24U);
}

TEST_P(AdviseTest, HowItIsReadHoldsForTheWholeRegionWhateverTheRange) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.advise(Advice::random, {0, page});
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(region.statistics()[Counter::prefetched_pages], 0U);
}

TEST_P(AdviseTest, AdviceAtMappingIsTaken) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = read_only(page);
  {
    options.advice = Advice::random;
    Region random = cache.map(store_, options);
    EXPECT_TRUE(is_known(bytes_of(random), 0));
    EXPECT_EQ(random.statistics()[Counter::prefetched_pages], 0U);
  }
  {
    options.advice = Advice::sequential;
    Region sequential = cache.map(store_, options);
    touch(sequential.data());
    EXPECT_TRUE(comes_to_be([&] { return sequential.statistics()[Counter::prefetched_pages] > 0; }));
  }
  // Into memory that is free: what is wanted in advance does not wait long for somebody else's.
  options.advice = Advice::will_need;
  options.length = 8 * page;
  Region needed = cache.map(store_, options);
  EXPECT_TRUE(comes_to_be([&] { return needed.statistics().resident_bytes == 8 * page; }));
}

TEST_P(AdviseTest, AdviceThatIsForPagesInMemoryCannotBeMappedWith) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = read_only(page);
  for (const Advice advice : {Advice::dont_need, Advice::cold, Advice::hot}) {
    options.advice = advice;
    EXPECT_THROW(cache.map(store_, options), OptionError);
  }
}

// How many pages of a range are in memory still after the range, then an advice, then other pages.
std::uint64_t still_resident(const CacheOptions& options, const std::shared_ptr<FaultyStore>& store,
                             std::optional<Advice> advice, std::uint64_t from, std::uint64_t bytes) {
  Cache cache(options);
  Region region = cache.map(store, read_only(page));
  region.advise(Advice::random);
  for (std::uint64_t offset = 0; offset < mib; offset += page) {
    touch(region.data() + offset);
  }
  if (advice.has_value()) {
    region.advise(*advice, {from, bytes});
  }
  for (std::uint64_t offset = 2 * mib; offset < 3 * mib - mib / 4; offset += page) {
    touch(region.data() + offset);
  }
  const std::uint64_t fills = region.statistics()[Counter::fills];
  for (std::uint64_t offset = from; offset < from + bytes; offset += page) {
    touch(region.data() + offset);
  }
  return bytes / page - (region.statistics()[Counter::fills] - fills);
}

TEST_P(AdviseTest, ColdPagesGoBeforeOthersAndHotOnesAfter) {
  const CacheOptions options = cache_options(1536 * kib);
  // The youngest pages would stay, the oldest go: the advice turns that round.
  const std::uint64_t young = still_resident(options, store_, {}, mib - 16 * page, 16 * page);
  const std::uint64_t cold = still_resident(options, store_, Advice::cold, mib - 16 * page, 16 * page);
  const std::uint64_t old = still_resident(options, store_, {}, 0, 16 * page);
  const std::uint64_t hot = still_resident(options, store_, Advice::hot, 0, 16 * page);
  EXPECT_LT(cold, young);
  EXPECT_GT(hot, old);
}

// Advice is about pages that others evict and fill at the same moment; under ThreadSanitizer this found it reading what
// is theirs.
TEST_P(AdviseTest, MeetsPagesThatComeAndGo) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  std::atomic<bool> done{false};
  std::thread adviser([&] {
    for (bool cold = true; !done.load(); cold = !cold) {
      region.advise(cold ? Advice::cold : Advice::hot);
    }
  });
  for (std::uint64_t offset = 0; offset < 16 * mib; offset += page) {
    EXPECT_EQ(region.data()[offset % (4 * mib)], known_byte(offset % (4 * mib)));
  }
  done.store(true);
  adviser.join();
}

TEST_P(AdviseTest, ARangeOutsideIsRefused) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  EXPECT_THROW(region.advise(Advice::will_need, {4 * mib - 1, 2}), OptionError);
}

}  // namespace
}  // namespace tiermap
