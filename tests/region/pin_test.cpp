// pin(): fetched, and in memory until unpin().
#include <atomic>
#include <thread>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class PinTest : public EngineTest {
 protected:
  std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(known_store(4 * mib));
};
INSTANTIATE_TEST_SUITE_P(Engines, PinTest, every_engine, engine_name);

TEST_P(PinTest, FetchesTheRange) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.pin({5 * page + 1, 2 * page});
  const std::uint64_t reads = store_->reads();
  EXPECT_EQ(reads, 3U);
  EXPECT_TRUE(is_known(bytes_of(region).subspan(5 * page, 3 * page), 5 * page));
  EXPECT_EQ(store_->reads(), reads);
}

TEST_P(PinTest, StaysUnderPressure) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = read_write(page);
  options.read_ahead_bytes = 0;  // What is asked for ahead may be read late, after what was read has gone again.
  Region region = cache.map(store_, options);
  region.pin({0, 16 * page});
  poke(region.data() + 3, std::byte{0});
  EXPECT_TRUE(is_known(bytes_of(region).subspan(16 * page), 16 * page));
  const std::uint64_t reads = store_->reads();
  EXPECT_EQ(touch(region.data() + 3), std::byte{0});
  EXPECT_TRUE(is_known(bytes_of(region).subspan(4, 16 * page - 4), 4));
  EXPECT_EQ(store_->reads(), reads);
}

TEST_P(PinTest, WritesToPinnedPagesAreNotLost) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_write(page));
  region.pin({0, 4 * page});
  std::memset(region.data(), 7, 4 * page);
  region.unpin({0, 4 * page});
  EXPECT_TRUE(is_known(bytes_of(region).subspan(16 * page), 16 * page));
  EXPECT_TRUE(is_all(bytes_of(region).first(4 * page), std::byte{7}));
  region.unmap();
  EXPECT_TRUE(is_all(read_store(*store_, 0, 4 * page), std::byte{7}));
}

TEST_P(PinTest, CountsHowOften) {
  Cache cache(cache_options(1 * mib));
  RegionOptions options = read_only(page);
  options.read_ahead_bytes = 0;
  Region region = cache.map(store_, options);
  region.pin({0, 2 * page});
  region.pin({page, page});
  region.unpin({0, 2 * page});
  const std::uint64_t reads_pinned = store_->reads();
  EXPECT_TRUE(is_known(bytes_of(region).subspan(2 * page), 2 * page));
  const std::uint64_t reads = store_->reads();
  EXPECT_GT(reads, reads_pinned);
  touch(region.data() + page);
  EXPECT_EQ(store_->reads(), reads) << "the page was pinned once more than it was unpinned";
  region.unpin({page, page});
  EXPECT_THROW(region.unpin({page, page}), OptionError);
}

TEST_P(PinTest, AfterUnpinThePageMayGo) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.pin({0, 16 * page});
  region.unpin({0, 16 * page});
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_GT(region.statistics()[Counter::evictions], 256U);
}

TEST_P(PinTest, MoreThanTheBudgetIsRefusedAndNothingIsPinned) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  try {
    region.pin({0, 2 * mib});
    FAIL() << "2 MiB were pinned in 1 MiB";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOMEM);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
  EXPECT_THROW(region.unpin({0, page}), OptionError);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.pin({0, mib / 2});
  EXPECT_THROW(region.pin({mib, mib / 2}), Error) << "beside what is pinned it does not fit either";
  region.pin({0, mib / 2});  // What is pinned already costs nothing more.
}

TEST_P(PinTest, ThreadsThatPinAtOnceCannotTogetherPassTheBudget) {
  for (int round = 0; round < 20; ++round) {
    Cache cache(cache_options(1 * mib));
    Region region = cache.map(store_, read_only(page));
    std::atomic<int> pinned{0};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread] {
        try {
          region.pin({thread * mib, 3 * mib / 8});
          ++pinned;
        } catch (const Error& error) {
          EXPECT_EQ(error.code().value(), ENOMEM);
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_GE(pinned, 1);
    EXPECT_LE(pinned, 2);
    EXPECT_LE(cache.minimum_budget_bytes(), cache.budget_bytes());
    EXPECT_TRUE(is_known(bytes_of(region), 0));
  }
}

TEST_P(PinTest, BudgetsSetByTwoThreadsDoNotMix) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store_, read_only(page));
  std::atomic<bool> stop{false};
  std::thread reader([&] {
    while (!stop) {
      EXPECT_TRUE(is_known(bytes_of(region), 0));
    }
  });
  std::vector<std::thread> setters;
  for (std::uint64_t number = 0; number < 2; ++number) {
    setters.emplace_back([&, number] {
      for (int step = 0; step < 20; ++step) {
        cache.set_budget_bytes((1 + 2 * number) * mib);
      }
    });
  }
  for (std::thread& setter : setters) {
    setter.join();
  }
  stop = true;
  reader.join();
  EXPECT_EQ(cache.budget_bytes(), cache.statistics().budget_bytes);
  EXPECT_LE(cache.statistics().resident_bytes, cache.budget_bytes());
}

TEST_P(PinTest, RaisesTheLeastBudget) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  const std::uint64_t before = cache.minimum_budget_bytes();
  region.pin({0, 8 * page});
  EXPECT_GE(cache.minimum_budget_bytes(), before + 8 * page);
  EXPECT_THROW(cache.set_budget_bytes(before), Error);
  region.unpin({0, 8 * page});
  EXPECT_EQ(cache.minimum_budget_bytes(), before);
}

TEST_P(PinTest, AStoreThatFailsIsToldAndNothingStaysPinned) {
  store_->on_read([](const FaultyStore::Call& call) {
    return call.offset <= 3 * page && call.offset + call.bytes > 3 * page ? FaultyStore::fail(EIO)
                                                                          : FaultyStore::pass();
  });
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  const std::uint64_t before = cache.minimum_budget_bytes();
  try {
    region.pin({0, 5 * page});
    FAIL() << "a page that cannot be read was pinned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO);
  }
  EXPECT_THROW(region.unpin({0, page}), OptionError);
  EXPECT_EQ(cache.minimum_budget_bytes(), before);
}

TEST_P(PinTest, WhereNothingCanGoThatIsToldAndNothingStaysPinned) {
  Cache cache(cache_options(512 * kib));
  RegionOptions options = read_write(page);
  options.manual_flush = true;
  Region changed = cache.map(store_, options);
  std::uint64_t offset = 0;
  while (offset < changed.size() && signal_raised_by([&] { poke(changed.data() + offset, std::byte{0}); }) == 0) {
    offset += page;
  }
  Region region = cache.map(known_store(page), read_only(page));
  try {
    region.pin({0, page});
    ADD_FAILURE() << "a page was pinned for which there was no memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EIO);
  }
  EXPECT_THROW(region.unpin({0, page}), OptionError);
  changed.sync();
  EXPECT_TRUE(comes_to_be([&] {
    try {
      region.pin({0, page});
    } catch (const Error&) {
      return false;
    }
    return true;
  }));
}

TEST_P(PinTest, AnEmptyRangeIsNoPage) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.pin({0, page});
  region.unpin({100, 0});
  region.unpin({0, page});
  region.pin({100, 0});
  EXPECT_THROW(region.unpin({0, page}), OptionError);
}

TEST_P(PinTest, WhatIsNotPinnedCannotBeUnpinned) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.pin({0, page});
  EXPECT_THROW(region.unpin({0, 2 * page}), OptionError);
  region.unpin({0, page});  // The refused call took nothing away.
}

TEST_P(PinTest, UnmapFreesWhatWasPinned) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  const std::uint64_t before = cache.minimum_budget_bytes();
  region.pin({0, 20 * page});
  region.unmap();
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  EXPECT_LE(cache.minimum_budget_bytes(), before);
}

TEST_P(PinTest, DontNeedLeavesPinnedPagesAlone) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_only(page));
  region.pin({0, 4 * page});
  const std::uint64_t reads = store_->reads();
  region.advise(Advice::dont_need, {0, 4 * page});
  EXPECT_TRUE(is_known(bytes_of(region).first(4 * page), 0));
  EXPECT_EQ(store_->reads(), reads);
}

}  // namespace
}  // namespace tiermap
