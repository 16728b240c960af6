// Stores that fail and return short at chosen moments: errors reach who they concern, nothing is lost, nothing
// hangs.
#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exactness/faulty_store_fixture.hpp"

namespace tiermap {
namespace {

TEST_P(FaultyStores, ReadErrorIsSigbusAndHeals) {
  open(1 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 3 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  EXPECT_EQ(touch(2), 0);
  EXPECT_EQ(touch(3), SIGBUS);
  EXPECT_EQ(touch(3), SIGBUS);
  EXPECT_EQ(touch(4), 0);
  EXPECT_GT(cache_->statistics()[Counter::read_errors], 0U);
  store_->on_read(nullptr);
  EXPECT_TRUE(heals(3));
}

TEST_P(FaultyStores, HealsThoughTheEnginesAreBusy) {
  open(1 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 3 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  std::atomic<bool> stop{false};
  std::thread load_maker([&] {
    std::mt19937_64 random(1);
    while (!stop.load()) {
      const std::uint64_t page = 4 + random() % (pages - 4);
      if (SignalTrap::store(words_ + first_word(page) + 1, random()) != 0) {
        ADD_FAILURE() << "page " << page << " has no fault";
        return;
      }
    }
  });
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(touch(3), SIGBUS);
  store_->on_read(nullptr);
  EXPECT_TRUE(heals(3));
  stop.store(true);
  load_maker.join();
}

TEST_P(FaultyStores, EveryPageThatFailedHeals) {
  Cache cache(cache_options(GetParam(), 1 << 20));
  const auto store = std::make_shared<FaultyStore>(std::make_shared<CappedStore>());
  RegionOptions small;
  small.page_size_bytes = 4096;
  small.read_ahead_bytes = 0;
  const Region region = cache.map(store, small);
  const auto* words = reinterpret_cast<const volatile std::uint64_t*>(region.data());
  store->on_read([](const Call&) { return FaultyStore::fail(EIO); });
  std::uint64_t value = 0;
  for (std::uint64_t page = 0; page < 700; ++page) {
    ASSERT_EQ(SignalTrap::load(words + page * 512, value), SIGBUS) << page;
  }
  store->on_read(nullptr);
  const auto end = Clock::now() + 5s;
  for (std::uint64_t page = 0; page < 700; ++page) {
    while (SignalTrap::load(words + page * 512, value) != 0) {
      ASSERT_LT(Clock::now(), end) << "page " << page << " never heals";
      std::this_thread::sleep_for(10ms);
    }
    ASSERT_EQ(value, first_content(page * 512));
  }
}

TEST_P(FaultyStores, PinThrowsAndPinsNothing) {
  open(1 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 3 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  const ByteRange range{page_bytes, 4 * page_bytes};
  try {
    region_.pin(range);
    ADD_FAILURE() << "a page that cannot be read cannot be pinned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO);
  }
  EXPECT_THROW(region_.unpin({page_bytes, page_bytes}), OptionError);
  store_->on_read(nullptr);
  EXPECT_TRUE(heals(3));
  region_.pin(range);
  region_.unpin(range);
}

TEST_P(FaultyStores, PrefetchOfWhatFailsEnds) {
  open(1 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 3 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  EXPECT_EQ(region_.prefetch({0, 8 * page_bytes}).wait(), 7U);
  EXPECT_EQ(touch(3), SIGBUS);
  EXPECT_EQ(touch(5), 0);
}

TEST_P(FaultyStores, FailedWritesStayDirtyUntilTheySucceed) {
  open(8 << 20);
  for (std::uint64_t word = 0; word < store_bytes / 8; ++word) {
    words_[word] = new_content(word);
  }
  store_->on_write([](const Call&) { return FaultyStore::fail(ENOSPC); });
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      region_.sync();
      ADD_FAILURE() << "sync cannot have succeeded";
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
    }
  }
  EXPECT_EQ(cache_->statistics().dirty_bytes, store_bytes);
  EXPECT_THROW(region_.unmap(), Error);
  for (std::uint64_t word = 0; word < store_bytes / 8; word += 511) {
    ASSERT_EQ(words_[word], new_content(word));
  }
  store_->on_write(nullptr);
  region_.sync();
  EXPECT_EQ(cache_->statistics().dirty_bytes, 0U);
  store_has_new_content();
}

// Half of the writes fail while memory is a quarter of the data: every page is evicted, fails, is touched again.
TEST_P(FaultyStores, NothingIsLostWhenWritesFailUnderPressure) {
  open(1 << 20);
  store_->on_write([random = std::mt19937_64(7)](const Call& call) mutable {
    switch (random() % 4) {
      case 0:
        return FaultyStore::fail(EIO);
      case 1:
        return FaultyStore::cut(1 + random() % call.bytes);
      default:
        return FaultyStore::pass();
    }
  });
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      std::mt19937_64 random(thread);
      std::vector<bool> written(store_bytes / 8);
      for (int step = 0; step < 6000; ++step) {
        const std::uint64_t word = random() % (store_bytes / 32) * 4 + thread;
        const std::uint64_t expected = written[word] ? new_content(word) : first_content(word);
        ASSERT_EQ(words_[word], expected) << "page " << word / page_words;
        words_[word] = new_content(word);
        written[word] = true;
      }
      for (std::uint64_t word = thread; word < store_bytes / 8; word += 4) {
        words_[word] = new_content(word);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(cache_->statistics()[Counter::write_errors], 0U);
  store_->on_write(nullptr);
  region_.sync();
  store_has_new_content();
}

TEST_P(FaultyStores, MemoryFullOfUnwritablePagesIsSigbusNotAHang) {
  open(1 << 20);
  store_->on_write([](const Call&) { return FaultyStore::fail(EIO); });
  std::uint64_t written = 0;
  int number = 0;
  while (written < pages && (number = SignalTrap::store(words_ + first_word(written), 42 + written)) == 0) {
    ++written;
  }
  EXPECT_EQ(number, SIGBUS);
  EXPECT_GT(written, 8U);
  for (std::uint64_t page = 0; page < written; ++page) {
    std::uint64_t value = 0;
    ASSERT_EQ(load(first_word(page), value), 0);
    ASSERT_EQ(value, 42 + page);
  }
  store_->on_write(nullptr);
  EXPECT_TRUE(heals(written));
  region_.sync();
  for (std::uint64_t page = 0; page < written; ++page) {
    ASSERT_EQ(inner_->word(first_word(page)), 42 + page);
  }
}

TEST_P(FaultyStores, ManualFlushKeepsDirtyPagesFromTheStore) {
  open(1 << 20, {.manual_flush = true});
  std::uint64_t written = 0;
  while (written < pages && SignalTrap::store(words_ + first_word(written), 42 + written) == 0) {
    ++written;
  }
  EXPECT_GT(written, 8U);
  EXPECT_LT(written, pages);
  EXPECT_EQ(store_->writes(), 0U);
  region_.sync();
  EXPECT_TRUE(heals(written));
  for (std::uint64_t page = 0; page < written; ++page) {
    ASSERT_EQ(inner_->word(first_word(page)), 42 + page);
  }
  words_[0] = 7;
  region_.discard({0, page_bytes});
  EXPECT_EQ(words_[0], 42U);
}

TEST_P(FaultyStores, ShortReadsAndWritesAreCompleted) {
  open(1 << 20);
  store_->on_read([](const Call& call) { return FaultyStore::cut(1 + call.number * 997 % call.bytes); });
  store_->on_write([](const Call& call) { return FaultyStore::cut(1 + call.number * 991 % call.bytes); });
  for (std::uint64_t word = 0; word < store_bytes / 8; ++word) {
    ASSERT_EQ(words_[word], first_content(word));
    words_[word] = new_content(word);
  }
  region_.sync();
  store_has_new_content();
}

TEST_P(FaultyStores, CapsOnRequestsInFlightAreKept) {
  open(1 << 20, {.reads = 2, .writes = 1});
  store_->on_read([](const Call&) { return FaultyStore::delay(1ms); });
  store_->on_write([](const Call&) { return FaultyStore::delay(1ms); });
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 8; ++thread) {
    threads.emplace_back([this, thread] {
      std::mt19937_64 random(thread);
      for (int step = 0; step < 60; ++step) {
        words_[first_word(random() % pages) + thread] = 1;
        if (step % 16 == 0) {
          region_.prefetch({random() % (pages - 8) * page_bytes, 8 * page_bytes});
          region_.sync();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(store_->most_reads_at_once(), 2U);
  EXPECT_EQ(store_->most_writes_at_once(), 1U);
}

TEST_P(FaultyStores, FailingFlushIsReportedBySync) {
  open(1 << 20);
  words_[5] = 99;
  store_->on_flush([](const Call& call) { return call.number == 0 ? FaultyStore::fail(EIO) : FaultyStore::pass(); });
  EXPECT_THROW(region_.sync(), Error);
  region_.sync();
  EXPECT_EQ(inner_->word(5), 99U);
}

// What a user's own store may do.
class ThrowingStore final : public Store {
 public:
  std::uint64_t size_bytes() const override { return 1 << 20; }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t) override {
    if (throwing.load()) {
      throw std::string("a read");
    }
    std::fill_n(static_cast<char*>(buffer), bytes, char{0});
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void*, std::size_t bytes, std::uint64_t) override {
    if (throwing.load()) {
      throw 42;
    }
    return static_cast<std::int64_t>(bytes);
  }
  int flush() override {
    if (throwing.load()) {
      throw std::runtime_error("a flush");
    }
    return 0;
  }
  std::atomic<bool> throwing{false};
};

TEST_P(FaultyStores, ExceptionsOfAStoreAreIoErrors) {
  Cache cache(cache_options(GetParam(), 1 << 20));
  const auto store = std::make_shared<ThrowingStore>();
  RegionOptions writable;
  writable.access = Access::read_write;
  Region region = cache.map(store, writable);
  auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
  words[0] = 1;
  store->throwing.store(true);
  std::uint64_t value = 0;
  EXPECT_EQ(SignalTrap::load(words + 64 * 1024, value), SIGBUS);
  try {
    region.sync();
    ADD_FAILURE() << "sync cannot have succeeded";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO);
  }
  EXPECT_EQ(words[0], 1U);
  store->throwing.store(false);
  region.sync();
}

INSTANTIATE_TEST_SUITE_P(Engines, FaultyStores, testing::ValuesIn(all_engine_settings),
                         [](const auto& information) { return engine_name(information.param); });

}  // namespace
}  // namespace tiermap
