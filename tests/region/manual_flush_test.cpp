// Manual flushing: nothing reaches the store before sync() or flush(), whatever memory lacks.
#include <atomic>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

RegionOptions manual() {
  RegionOptions options = read_write(page);
  options.manual_flush = true;
  return options;
}

class ManualFlushTest : public EngineTest {
 protected:
  std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(known_store(4 * mib));
};
INSTANTIATE_TEST_SUITE_P(Engines, ManualFlushTest, every_engine, engine_name);

TEST_P(ManualFlushTest, NothingIsWrittenUnderPressure) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, manual());
  for (std::uint64_t offset = 0; offset < 8 * page; offset += page) {
    poke(region.data() + offset, std::byte{0});
  }
  EXPECT_TRUE(is_known(bytes_of(region).subspan(8 * page), 8 * page));
  region.advise(Advice::dont_need);
  region.advise(Advice::cold);
  EXPECT_EQ(store_->writes(), 0U);
  for (std::uint64_t offset = 0; offset < 8 * page; offset += page) {
    EXPECT_EQ(touch(region.data() + offset), std::byte{0});
  }
}

TEST_P(ManualFlushTest, ResizeWritesNothingUnasked) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = manual();
  options.length = 4 * page + 4096;
  options.reserve_bytes = 8 * page;
  Region region = cache.map(store_, options);
  poke(region.data() + 4 * page, std::byte{0});
  for (const std::uint64_t length : {8 * page, 4 * page + 100}) {
    try {
      region.resize(length);
      ADD_FAILURE() << "resized to " << length << " over unwritten changes";
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), EBUSY);
    }
    EXPECT_EQ(region.size(), 4 * page + 4096);
    EXPECT_EQ(touch(region.data() + 4 * page), std::byte{0});
  }
  poke(region.data() + 3 * page, std::byte{0});
  region.resize(3 * page);  // Cut between pages: what goes is dropped.
  EXPECT_EQ(store_->writes(), 0U);
  region.resize(8 * page);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ManualFlushTest, SyncWrites) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, manual());
  poke(region.data() + 2 * page, std::byte{0});
  region.sync();
  EXPECT_EQ(read_store(*store_, 2 * page, 1)[0], std::byte{0});
}

TEST_P(ManualFlushTest, FlushWrites) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, manual());
  poke(region.data() + 2 * page, std::byte{0});
  region.flush({2 * page, page});
  EXPECT_TRUE(comes_to_be([&] { return store_->writes() > 0; }));
  EXPECT_TRUE(comes_to_be([&] { return region.statistics().dirty_bytes == 0; }));
}

TEST_P(ManualFlushTest, UnmapDoesNotWrite) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, manual());
  poke(region.data(), std::byte{0});
  region.unmap();
  EXPECT_EQ(store_->writes(), 0U);
  EXPECT_EQ(cache.statistics().dirty_bytes, 0U);
}

TEST_P(ManualFlushTest, AFaultThatFindsOnlyDirtyPagesGetsSigbusAndSyncHelps) {
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(store_, manual());
  int raised = 0;
  std::uint64_t written = 0;
  for (; written < region.size() && raised == 0; written += raised == 0 ? page : 0) {
    raised = signal_raised_by([&] { poke(region.data() + written, std::byte{0}); });
  }
  EXPECT_EQ(raised, SIGBUS);
  EXPECT_LE(written, 512 * kib);
  EXPECT_GE(written, 512 * kib / 2);
  EXPECT_EQ(store_->writes(), 0U);
  for (std::uint64_t offset = 0; offset < written; offset += page) {
    EXPECT_EQ(touch(region.data() + offset), std::byte{0});
  }
  region.sync();
  EXPECT_TRUE(comes_to_be([&] { return signal_raised_by([&] { poke(region.data() + written, std::byte{0}); }) == 0; }))
      << "pages can be evicted again, and still the access fails";
}

TEST_P(ManualFlushTest, ABudgetThatCannotBecomeSmallerEndsNobodyMeanwhile) {
  Cache cache(cache_options(2 * mib));
  Region region = cache.map(store_, manual());
  for (std::uint64_t offset = 0; offset < 64 * page; offset += page) {
    poke(region.data() + offset, std::byte{0});
  }
  const Region other = cache.map(known_store(4 * mib), read_only(page));
  std::atomic<bool> stop{false};
  std::atomic<int> raised{0};
  std::vector<std::thread> readers;
  for (std::uint64_t reader = 0; reader < 4; ++reader) {
    readers.emplace_back([&, reader] {
      for (std::uint64_t turn = reader; !stop.load(); ++turn) {
        const std::byte* const byte = other.data() + turn * 7 % 256 * page;
        raised += signal_raised_by([&] { touch(byte); }) == 0 ? 0 : 1;
      }
    });
  }
  for (int attempt = 0; attempt < 3; ++attempt) {
    try {
      cache.set_budget_bytes(512 * kib);
      ADD_FAILURE() << "a budget of 512 KiB holds a MiB that is not to be written";
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOMEM);
    }
    EXPECT_EQ(cache.budget_bytes(), 2 * mib);
  }
  stop.store(true);
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(raised.load(), 0);
}

}  // namespace
}  // namespace tiermap
