// Where no page size is chosen, the same bytes come in small, large and wide pages by turns: threads that provoke all
// three at once must find each word as they stored it, and the store must have it in the end.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/watchdog.hpp"
#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "store/random_rounds.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using Random = std::mt19937_64;

constexpr std::uint64_t kib = 1 << 10;
constexpr std::uint64_t mib = 1 << 20;
constexpr std::uint64_t region_bytes = 72 * mib + 5000;
/// Enough for wide pages, and much less than the region.
constexpr std::uint64_t budget_bytes = 34 * mib;
constexpr std::uint64_t block_bytes = 4 * kib;
constexpr std::uint64_t blocks = region_bytes / block_bytes;
constexpr std::uint64_t thread_count = 4;

class ChosenPageSize : public testing::TestWithParam<FaultMode> {
 protected:
  void SetUp() override {
    CacheOptions options;
    options.budget_bytes = budget_bytes;
    options.fault_mode = GetParam();
    options.publish_statistics = false;
    cache_ = std::make_unique<Cache>(options);
    region_ = cache_->map(store_, {.access = Access::read_write});
  }

  /// Each thread has one word in every block.
  volatile std::uint64_t& word(std::uint64_t block, std::uint64_t thread) {
    return reinterpret_cast<volatile std::uint64_t*>(region_.data())[block * (block_bytes / 8) + thread * 7];
  }

  bool check(std::uint64_t block, std::uint64_t thread) {
    const std::uint64_t found = word(block, thread);
    const std::uint64_t expected = expected_[block * thread_count + thread];
    if (found != expected) {
      ADD_FAILURE() << "block " << block << ", thread " << thread << ": found " << found << ", expected " << expected;
    }
    return found == expected;
  }

  bool touch_some(Random& random, std::uint64_t thread, std::uint64_t first, std::uint64_t count) {
    for (std::uint64_t block = first; block < std::min(first + count, blocks); ++block) {
      if (!check(block, thread)) {
        return false;
      }
      if (random() % 4 == 0) {
        word(block, thread) = expected_[block * thread_count + thread] = random();
      }
    }
    return true;
  }

  ByteRange some(Random& random, std::uint64_t most_bytes) {
    const std::uint64_t offset = random() % region_bytes;
    return {offset, std::min(random() % most_bytes + 1, region_bytes - offset)};
  }

  bool act(Random& random, std::uint64_t thread) {
    switch (random() % 32) {
      case 0:
        return touch_some(random, thread, random() % blocks, 3 * mib / block_bytes);  // A stream.
      case 1:
        region_.sync(some(random, 4 * mib));
        return true;
      case 2:
        region_.advise(Advice::dont_need, some(random, 4 * mib));
        return true;
      case 3: {
        const ByteRange ranges[] = {some(random, 3 * mib), some(random, 8 * kib), some(random, 200 * kib)};
        region_.prefetch(ranges);
        return true;
      }
      case 4:
        region_.flush(some(random, 2 * mib));
        return true;
      case 5:
      case 6:
      case 7:
        return touch_some(random, thread, random() % blocks / 16 * 16, 16);  // All of a large page.
      default:
        return touch_some(random, thread, random() % blocks, 1);
    }
  }

  void storm(std::uint64_t seed, std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < thread_count; ++thread) {
      threads.emplace_back([this, end, thread, seed] {
        Random random(seed + thread);
        while (std::chrono::steady_clock::now() < end && act(random, thread)) {
        }
      });
    }
    std::this_thread::sleep_for(time / 2);
    during_storm_();
    for (std::thread& thread : threads) {
      thread.join();
    }
    EXPECT_LE(cache_->statistics().resident_bytes, budget_bytes);
  }

  void check_store() {
    region_.unmap();
    EXPECT_EQ(cache_->statistics().resident_bytes, 0U);
    EXPECT_EQ(cache_->statistics().dirty_bytes, 0U);
    EXPECT_EQ(cache_->statistics().mapped_bytes, 0U);
    region_ = cache_->map(store_, {.access = Access::read_write, .page_size_bytes = mib});
    for (std::uint64_t block = 0; block < blocks; ++block) {
      for (std::uint64_t thread = 0; thread < thread_count; ++thread) {
        ASSERT_TRUE(check(block, thread));
      }
    }
  }

  static std::uint64_t seed() {
    const std::uint64_t chosen = test_seed();
    std::printf("TIERMAP_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    std::fflush(stdout);
    return chosen;
  }

  SignalTrap trap_;  // Before the first cache.
  const std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>(region_bytes);
  std::vector<std::uint64_t> expected_ = std::vector<std::uint64_t>(blocks * thread_count);
  std::unique_ptr<Cache> cache_;
  Region region_;
  std::function<void()> during_storm_ = [] {};
};
INSTANTIATE_TEST_SUITE_P(Modes, ChosenPageSize, testing::Values(FaultMode::notify, FaultMode::self_serving),
                         [](const auto& information) {
                           return information.param == FaultMode::notify ? "notify" : "self_serving";
                         });

TEST_P(ChosenPageSize, NoWordIsLostAmongPagesOfThreeSizes) {
  const Watchdog watchdog("pages of three sizes", std::chrono::seconds(60));
  storm(seed(), std::chrono::milliseconds(900));
  check_store();
}

TEST_P(ChosenPageSize, NoWordIsLostWhenTheChoiceEnds) {
  const Watchdog watchdog("the end of a choice", std::chrono::seconds(60));
  const std::uint64_t chosen = seed();
  during_storm_ = [&] {
    region_.pin({3 * mib, 10});
    region_.unpin({3 * mib, 10});
  };
  storm(chosen, std::chrono::milliseconds(600));
  during_storm_ = [] {};
  region_.resize(region_bytes - 3 * mib);  // What is cut off is written before.
  check_store();
}

// What of a wide page is not to be discarded is written before. By then the page may have gone, and pages of another
// size have come where it lay.
TEST_P(ChosenPageSize, NoWordIsLostBesideAPartThatIsDiscarded) {
  const Watchdog watchdog("parts that are discarded", std::chrono::seconds(60));
  constexpr ByteRange wide_page{0, mib};
  std::atomic<bool> ended{false};
  std::vector<std::thread> discarding;
  for (int thread = 0; thread < 3; ++thread) {
    discarding.emplace_back([&] {
      while (!ended.load()) {
        region_.discard({mib / 2, block_bytes});
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  bool found_all = true;
  const auto store_and_drop = [&] {
    found_all = found_all && check(0, 0);
    word(0, 0) = ++expected_[0];
    found_all = found_all && check(0, 0);
    region_.advise(Advice::dont_need, wide_page);
  };
  while (found_all && std::chrono::steady_clock::now() < end) {
    region_.prefetch({&wide_page, 1}).wait();
    store_and_drop();
    store_and_drop();
  }
  ended.store(true);
  for (std::thread& thread : discarding) {
    thread.join();
  }
  EXPECT_TRUE(check(0, 0));
}

// Where a part of a wide page is in memory already, the rest of it comes in smaller ones.
TEST_P(ChosenPageSize, APrefetchIsAwaitedThatCompletesAPart) {
  const TemporaryDirectory directory;
  const std::string path = directory / "store";
  write_file(path, std::string(8 * mib, 'x'));
  Region region = cache_->map(path, {.access = Access::read_only});
  region.advise(Advice::random);  // Faults on small pages.
  for (std::uint64_t wide_page = 0; wide_page < 8; ++wide_page) {
    const std::uint64_t start = wide_page * mib;
    EXPECT_EQ(static_cast<char>(static_cast<volatile std::byte&>(region.data()[start + 5 * block_bytes])), 'x');
    EXPECT_EQ(region.statistics().resident_bytes, start + block_bytes);
    // A block, 15 others of its 64 KiB, and 15 times 64 KiB.
    EXPECT_EQ(region.prefetch({start, mib}).wait(), 31U);
    EXPECT_EQ(region.statistics().resident_bytes, start + mib);
  }
}

// What lies in a wide page is there, in whatever size it is asked for.
TEST_P(ChosenPageSize, APrefetchCountsWhatIsThereInAWidePage) {
  const ByteRange wide_page{0, mib};
  ASSERT_EQ(region_.prefetch(wide_page).wait(), 1U);
  ASSERT_EQ(region_.statistics().resident_bytes, mib);
  EXPECT_EQ(region_.prefetch({0, mib / 2}).wait(), 8U);
  region_.advise(Advice::random);
  EXPECT_EQ(region_.prefetch({mib / 2, 2 * block_bytes}).wait(), 2U);
  EXPECT_EQ(region_.statistics().resident_bytes, mib);
}

// Who waits for a wide page as it is written takes another size once it has gone: by then a smaller budget may have no
// room for so much at once, for which he waited, and then got SIGBUS.
TEST_P(ChosenPageSize, NoFaultNeedsRoomForAWidePage) {
  const Watchdog watchdog("wide pages that go", std::chrono::seconds(60));
  const auto slow = std::make_shared<FaultyStore>(store_);
  slow->on_write([](const FaultyStore::Call&) { return FaultyStore::delay(std::chrono::milliseconds(2)); });
  CacheOptions options;
  options.budget_bytes = budget_bytes;
  options.fault_mode = GetParam();
  options.publish_statistics = false;
  Cache cache(options);
  Region region = cache.map(slow, {.access = Access::read_write});
  const auto word_of = [&](std::uint64_t wide_page) {
    return reinterpret_cast<volatile std::uint64_t*>(region.data() + wide_page * mib);
  };
  constexpr std::uint64_t wide_pages = 24;
  std::atomic<int> signal{0};
  std::atomic<int> wrong{0};
  for (int round = 0; round < 4; ++round) {
    cache.set_budget_bytes(budget_bytes);
    region.prefetch({0, wide_pages * mib}).wait();
    for (std::uint64_t page = 0; page < wide_pages; ++page) {
      if (const int raised = SignalTrap::store(word_of(page), page + 1); raised != 0) {
        signal = raised;
      }
    }
    std::atomic<bool> ended{false};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::uint64_t page = thread; !ended.load(); page = (page + 5) % wide_pages) {
          std::uint64_t found = page + 1;
          if (const int raised = SignalTrap::load(word_of(page), found); raised != 0) {
            signal = raised;
          } else if (found != page + 1) {
            ++wrong;
          }
        }
      });
    }
    cache.set_budget_bytes(cache.minimum_budget_bytes());
    ended.store(true);
    for (std::thread& thread : threads) {
      thread.join();
    }
    region.discard({0, region.size()});
  }
  EXPECT_EQ(signal, 0);
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tiermap
