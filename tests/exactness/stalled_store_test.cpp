// Stores that stall: who needs what they hold up waits, and nobody else.
#include <thread>
#include <vector>

#include "exactness/faulty_store_fixture.hpp"

namespace tiermap {
namespace {

TEST_P(FaultyStores, AStalledPageHoldsUpNoOther) {
  open(1 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 3 ? FaultyStore::stall() : FaultyStore::pass(); });
  std::vector<std::thread> waiting;
  for (int thread = 0; thread < 3; ++thread) {
    waiting.emplace_back([this] { EXPECT_EQ(touch(3), 0); });
  }
  while (store_->stalled() == 0) {
    std::this_thread::sleep_for(1ms);
  }
  const std::uint64_t reads = store_->reads();
  std::vector<std::thread> others;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    others.emplace_back([this, thread] {
      for (std::uint64_t page = 4 + thread; page < pages; page += 4) {
        EXPECT_EQ(touch(page), 0);
      }
    });
  }
  for (std::thread& other : others) {
    other.join();
  }
  region_.sync({4 * page_bytes, page_bytes});
  EXPECT_EQ(store_->stalled(), 1U) << "one read for all who wait for one page";
  EXPECT_GE(store_->reads() - reads, pages - 4);
  EXPECT_TRUE(comes_to_be([&] { return region_.statistics()[Counter::coalesced_faults] >= 2; }));
  store_->on_read(nullptr);
  store_->release();
  for (std::thread& thread : waiting) {
    thread.join();
  }
}

// While all fillers are held up, faults queue: many enough to go out in batches once a filler is free.
TEST_P(FaultyStores, AStalledPageHoldsUpNoneThatWaitedWithIt) {
  open(4 << 20);
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes < 4 ? FaultyStore::stall() : FaultyStore::pass(); });
  std::vector<std::thread> first;
  for (std::uint64_t page = 0; page < 4; ++page) {
    first.emplace_back([this, page] { EXPECT_EQ(touch(page), 0); });
  }
  while (store_->stalled() < 4) {
    std::this_thread::sleep_for(1ms);
  }
  store_->on_read(
      [](const Call& call) { return call.offset / page_bytes == 8 ? FaultyStore::stall() : FaultyStore::pass(); });
  std::vector<std::thread> others;
  for (std::uint64_t page = 4; page < 44; ++page) {
    (page == 8 ? first : others).emplace_back([this, page] { EXPECT_EQ(touch(page), 0); });
  }
  std::this_thread::sleep_for(50ms);
  store_->release();
  for (std::thread& other : others) {
    other.join();
  }
  store_->on_read(nullptr);
  store_->release();
  for (std::thread& thread : first) {
    thread.join();
  }
}

// The evictor (there is one) meets the page that sync() writes again and again, and must take others.
TEST_P(FaultyStores, APageThatIsBeingWrittenHoldsUpNoEviction) {
  open(1 << 20, {.evictors = 1});
  constexpr std::uint64_t stalled_page = 3;
  words_[first_word(stalled_page)] = 42;
  store_->on_write([](const Call& call) {
    return call.offset / page_bytes == stalled_page ? FaultyStore::stall() : FaultyStore::pass();
  });
  std::thread syncing([this] { region_.sync({stalled_page * page_bytes, page_bytes}); });
  EXPECT_TRUE(comes_to_be([&] { return store_->stalled() == 1; }));
  // Twice through more than memory holds, now to write and then to see what was written.
  for (std::uint64_t page = stalled_page + 1; page < pages; ++page) {
    EXPECT_EQ(SignalTrap::store(words_ + first_word(page), new_content(page)), 0) << page;
  }
  for (std::uint64_t page = stalled_page + 1; page < pages; ++page) {
    std::uint64_t value = 0;
    EXPECT_EQ(load(first_word(page), value), 0) << page;
    EXPECT_EQ(value, new_content(page)) << page;
  }
  EXPECT_EQ(store_->stalled(), 1U) << "the page was being written all the time";
  EXPECT_GT(region_.statistics()[Counter::evictions], pages);
  store_->on_write(nullptr);
  store_->release();
  syncing.join();
  EXPECT_EQ(words_[first_word(stalled_page)], 42U);
  EXPECT_EQ(inner_->word(first_word(stalled_page)), 42U);
}

// Every other segment is a hole, which is zeros without any read: that must not wait for reads that only the same
// thread can end.
TEST_P(FaultyStores, ACapOnReadsHoldsUpNoHoleBetweenThem) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t bytes = 16 << 20;
  constexpr std::uint64_t segment_bytes = 64 << 10;
  const auto content_at = [](std::uint64_t offset) {
    return offset / segment_bytes % 2 == 0 ? first_content(offset / 8) : 0;
  };
  const std::shared_ptr<Store> store =
      open_store("sparse:" + directory.encoded() + "/store?segment=64KiB&max_reads=2", OpenMode::create, bytes);
  for (std::uint64_t offset = 0; offset < bytes; offset += page_bytes) {
    const std::uint64_t content = content_at(offset);
    if (content != 0) {
      ASSERT_EQ(store->write(&content, sizeof content, offset), 8);
    }
  }
  Cache cache(cache_options(GetParam(), 32 << 20));
  const Region region = cache.map(store, {.access = Access::read_only, .page_size_bytes = page_bytes});
  Region ahead = cache.map(store, {.access = Access::read_only, .page_size_bytes = page_bytes});
  const Prefetch prefetch = ahead.prefetch({0, bytes / 2});
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 6; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint64_t offset = thread * page_bytes; offset < bytes; offset += 6 * page_bytes) {
        EXPECT_EQ(*reinterpret_cast<volatile std::uint64_t*>(region.data() + offset), content_at(offset)) << offset;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  prefetch.wait();
  for (std::uint64_t offset = 0; offset < bytes; offset += page_bytes) {
    ASSERT_EQ(*reinterpret_cast<volatile std::uint64_t*>(ahead.data() + offset), content_at(offset)) << offset;
  }
}

}  // namespace
}  // namespace tiermap
