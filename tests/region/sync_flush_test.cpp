// sync(): on the store when it returns. flush(): on its way.
#include <atomic>
#include <thread>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class SyncTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, SyncTest, every_engine, engine_name);

TEST_P(SyncTest, AnIndependentReadSeesWhatWasWritten) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "data", 1 * mib + 17);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(directory / "data", read_write(page));
  std::vector<std::byte> expected = known_bytes(0, 1 * mib + 17);
  for (std::uint64_t offset = 0; offset < region.size(); offset += 5000) {
    poke(region.data() + offset, std::byte{0});
    expected[offset] = std::byte{0};
  }
  region.sync();
  EXPECT_EQ(read_bytes(directory / "data"), expected);
  EXPECT_EQ(region.statistics().dirty_bytes, 0U);
}

TEST_P(SyncTest, OnARealDiskToo) {
  const TemporaryDirectory directory;
  write_known_file(directory / "data", 300 * kib + 5);
  Cache cache(cache_options(256 * kib));
  Region region = cache.map(directory / "data", read_write(page));
  for (std::uint64_t offset = 0; offset < region.size(); ++offset) {
    region.data()[offset] = std::byte{1};
  }
  region.sync();
  const std::vector<std::byte> content = read_bytes(directory / "data");
  EXPECT_EQ(content.size(), 300 * kib + 5);
  EXPECT_TRUE(is_all(content, std::byte{1}));
}

TEST_P(SyncTest, OfARangeWritesThatRange) {
  const auto store = known_store(16 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  poke(region.data(), std::byte{0});
  poke(region.data() + 8 * page, std::byte{0});
  region.sync({8 * page + 100, 1});
  EXPECT_EQ(read_store(*store, 8 * page, 1)[0], std::byte{0});
  EXPECT_EQ(read_store(*store, 0, 1)[0], known_byte(0));
  EXPECT_EQ(region.statistics().dirty_bytes, page);
}

TEST_P(SyncTest, FlushesTheStore) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  poke(region.data(), std::byte{0});
  region.sync();
  EXPECT_EQ(store->flushes(), 1U);
}

TEST_P(SyncTest, APageCanBeWrittenAgainAfterwards) {
  const auto store = known_store(4 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  for (int round = 1; round < 20; ++round) {
    poke(region.data() + page, static_cast<std::byte>(round));
    region.sync();
    EXPECT_EQ(read_store(*store, page, 1)[0], static_cast<std::byte>(round));
  }
}

TEST_P(SyncTest, WritersDoNotStopAndLoseNothing) {
  const auto store = known_store(16 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::atomic<bool> stop{false};
  std::vector<std::thread> writers;
  std::vector<std::uint64_t> last(3, 0);
  for (std::size_t writer = 0; writer < 3; ++writer) {
    writers.emplace_back([&, writer] {
      auto* const words = reinterpret_cast<volatile std::uint64_t*>(region.data());
      do {
        ++last[writer];
        for (std::uint64_t in_page = 0; in_page < 16; ++in_page) {
          words[in_page * page / 8 + writer] = last[writer];
        }
      } while (!stop.load(std::memory_order_relaxed));
    });
  }
  for (int round = 0; round < 100; ++round) {
    region.sync();
  }
  stop.store(true);
  for (std::thread& writer : writers) {
    writer.join();
  }
  region.sync();
  const std::vector<std::byte> content = read_store(*store, 0, 16 * page);
  for (std::uint64_t in_page = 0; in_page < 16; ++in_page) {
    EXPECT_EQ(std::memcmp(content.data() + in_page * page, last.data(), 24), 0) << "page " << in_page;
  }
}

TEST_P(SyncTest, AWriteErrorIsReturnedAndThePageStaysDirty) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  poke(region.data() + page, std::byte{0});
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(ENOSPC); });
  try {
    region.sync();
    FAIL() << "the store refused, and sync() said nothing";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOSPC);
  }
  EXPECT_EQ(region.statistics().dirty_bytes, page);
  EXPECT_EQ(touch(region.data() + page), std::byte{0});
  store->on_write({});
  region.sync();
  EXPECT_EQ(read_store(*store, page, 1)[0], std::byte{0});
}

TEST_P(SyncTest, AnErrorOfTheStoresFlushIsReturned) {
  const auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  store->on_flush(
      [](const FaultyStore::Call& call) { return call.number == 0 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  poke(region.data(), std::byte{0});
  EXPECT_THROW(region.sync(), Error);
  region.sync();
}

TEST_P(SyncTest, WritesNothingThatWasNotChanged) {
  const auto store = std::make_shared<FaultyStore>(known_store(16 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.sync();
  EXPECT_EQ(store->writes(), 0U);
}

TEST_P(SyncTest, ARangeOutsideIsRefused) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(known_store(4 * page), read_write(page));
  EXPECT_THROW(region.sync({4 * page, 1}), OptionError);
  EXPECT_THROW(region.flush({0, 4 * page + 1}), OptionError);
  EXPECT_THROW(region.sync({UINT64_MAX, 2}), OptionError);
}

TEST_P(SyncTest, FlushWritesWithoutWaiting) {
  const auto store = std::make_shared<FaultyStore>(known_store(16 * page));
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::stall(); });
  std::memset(region.data(), 1, 16 * page);
  region.flush();  // Returns though the store does not.
  EXPECT_TRUE(comes_to_be([&] { return store->stalled() > 0; }));
  store->on_write({});
  store->release();
  // The last page's fill may not yet have been counted as dirty: the store decides.
  EXPECT_TRUE(comes_to_be(
      [&] { return region.statistics().dirty_bytes == 0 && is_all(read_store(*store, 0, 16 * page), std::byte{1}); }));
}

TEST_P(SyncTest, FlushOfARangeLeavesTheRest) {
  const auto store = known_store(16 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 1, 16 * page);
  region.flush({2 * page, 2 * page});
  EXPECT_TRUE(comes_to_be([&] { return region.statistics().dirty_bytes == 14 * page; }));
  EXPECT_TRUE(is_all(read_store(*store, 2 * page, 2 * page), std::byte{1}));
  EXPECT_TRUE(is_known(read_store(*store, 0, 2 * page), 0));
}

TEST_P(SyncTest, FlushesWhileMemoryIsFullEnd) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(store, read_write(page));
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    poke(region.data() + offset, std::byte{0});
    region.flush();
  }
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    EXPECT_TRUE(comes_to_be([&] { return read_store(*store, offset, 1)[0] == std::byte{0}; })) << offset;
  }
}

}  // namespace
}  // namespace tiermap
