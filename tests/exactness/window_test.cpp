// Writes that hit a page in the very moment another thread's read fault places it. UFFDIO_MOVE delivers pages writable,
// so for some microseconds a write raises no fault: it must not be lost. On a read-only region such a write must not
// last.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

struct Setting {
  EngineSetting engine;
  std::uint64_t page_bytes;
};

class Window : public testing::TestWithParam<Setting> {
 protected:
  void open(Access access) {
    const Setting& setting = GetParam();
    pages_ = std::max<std::uint64_t>(24, std::min<std::uint64_t>(512, (8 << 20) / setting.page_bytes));
    const std::uint64_t bytes = pages_ * setting.page_bytes;
    store_ = open_store("memory:" + std::to_string(bytes), OpenMode::open_or_create);
    for (std::uint64_t page = 0; page < pages_; ++page) {
      const std::uint64_t value = first_content(page);
      for (std::uint64_t word = 0; word < 3; ++word) {
        store_->write(&value, sizeof value, page * setting.page_bytes + word * 8);
      }
    }
    CacheOptions options = cache_options(setting.engine, bytes / 3 + setting.page_bytes * 9);
    options.policy = "segmented-fifo";  // Unmaps and rescues a lot: each rescue is a placement too.
    cache_ = std::make_unique<Cache>(options);
    RegionOptions region;
    region.access = access;
    region.page_size_bytes = setting.page_bytes;
    region.read_ahead_bytes = 0;
    region_options_ = region;
    map();
  }
  void map() {
    region_ = cache_->map(store_, region_options_);
    words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
  }
  volatile std::uint64_t* word(std::uint64_t page, std::uint64_t index) {
    return words_ + page * (GetParam().page_bytes / 8) + index;
  }

  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"placement window", std::chrono::seconds(60)};
  std::uint64_t pages_ = 0;
  std::shared_ptr<Store> store_;
  std::unique_ptr<Cache> cache_;
  RegionOptions region_options_;
  Region region_;
  volatile std::uint64_t* words_ = nullptr;
};

// A reader goes through the pages and says where it is; writers hammer the page that it is about to fault in, each a
// word of its own, and count. What they counted must be there, in memory and at last in the store.
TEST_P(Window, NoWriteIsLost) {
  open(Access::read_write);
  std::atomic<std::uint64_t> position{0};
  std::atomic<bool> stop{false};
  constexpr std::uint64_t writers = 2;
  std::vector<std::vector<std::uint64_t>> counts(writers, std::vector<std::uint64_t>(pages_));
  std::vector<std::thread> threads;
  for (std::uint64_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      while (!stop.load(std::memory_order_relaxed)) {
        const std::uint64_t page = position.load(std::memory_order_relaxed) % pages_;
        std::uint64_t& count = counts[writer][page];
        volatile std::uint64_t* mine = word(page, 1 + writer);
        const std::uint64_t found = *mine;
        if (found != first_content(page) + count) {
          ADD_FAILURE() << "page " << page << ": " << found - first_content(page) << " writes of " << count;
          return;
        }
        // Without a load before it, so that the write itself meets the window.
        for (int repeat = 0; repeat < 20; ++repeat) {
          const std::uint64_t next = position.load(std::memory_order_relaxed) % pages_;
          *word(next, 1 + writer) = first_content(next) + ++counts[writer][next];
        }
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  std::uint64_t step = 0;
  while (std::chrono::steady_clock::now() < end && !HasFailure()) {
    const std::uint64_t page = step++ % pages_;
    position.store(page, std::memory_order_relaxed);
    ASSERT_EQ(*word(page, 0), first_content(page));
    if (step % 7 == 0) {  // Clean again, so that the next eviction writes nothing and the next write must be noticed.
      region_.flush();
    }
  }
  stop.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::printf("%llu placements, %llu writes caught in the window\n", static_cast<unsigned long long>(step),
              static_cast<unsigned long long>(region_.statistics()[Counter::window_writes]));
  region_.unmap();
  for (std::uint64_t page = 0; page < pages_; ++page) {
    for (std::uint64_t writer = 0; writer < writers; ++writer) {
      std::uint64_t value = 0;
      store_->read(&value, sizeof value, page * GetParam().page_bytes + (1 + writer) * 8);
      EXPECT_EQ(value, first_content(page) + counts[writer][page]) << "page " << page << " writer " << writer;
    }
  }
}

// How long ago the writer may have looked last without finding the page, for it to run in the moment that the page
// comes.
constexpr std::chrono::microseconds at_once{200};
// Of this many writes in that moment one hits the window, unless nobody looks for it.
constexpr std::uint64_t enough_meetings = 2000;

// A writer that looks for the very moment in which the first block of the page that another thread faults in is there,
// and the last is still to come or nothing is protected yet.
TEST_P(Window, AWriteInTheMomentOfPlacingIsCaughtAndCounted) {
  if (GetParam().engine.placement != Placement::move || GetParam().page_bytes < (512 << 10)) {
    GTEST_SKIP() << "only large pages that are moved in take long enough to be met for certain";
  }
  if (std::thread::hardware_concurrency() < 2) {
    GTEST_SKIP() << "with one processor nobody else runs in that moment";
  }
  open(Access::read_write);
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> ended{0};
  std::atomic<std::uint64_t> meetings{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (std::uint64_t turn = 1;; ++turn) {
      while (begun.load() < turn) {
        if (stop.load()) {
          return;
        }
      }
      volatile std::uint64_t* const start = word((turn - 1) % pages_, 0);
      unsigned char present = 0;
      auto absent = std::chrono::steady_clock::time_point::min();
      while ((present & 1U) == 0) {
        const auto now = std::chrono::steady_clock::now();
        ::mincore(const_cast<std::uint64_t*>(start), 4096, &present);
        absent = (present & 1U) == 0 ? now : absent;
      }
      start[1] = turn;
      const bool was_at_once = absent + at_once > std::chrono::steady_clock::now();
      meetings.store(meetings.load() + (was_at_once ? 1 : 0));
      ended.store(turn);
    }
  });
  const auto caught = [this] { return region_.statistics()[Counter::window_writes]; };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::uint64_t turn = 0;
  while (caught() == 0 && !HasFailure() && meetings.load() < enough_meetings &&
         std::chrono::steady_clock::now() < end) {
    const std::uint64_t page = turn++ % pages_;
    begun.store(turn);
    EXPECT_EQ(*word(page, 0), first_content(page));
    while (ended.load() < turn) {
      ::sched_yield();
    }
    EXPECT_EQ(*word(page, 1), turn);
  }
  stop.store(true);
  writer.join();
  const std::uint64_t writes_caught = caught();
  std::printf("%llu placements, %llu met at once, until a write was caught\n", static_cast<unsigned long long>(turn),
              static_cast<unsigned long long>(meetings.load()));
  region_.unmap();
  for (std::uint64_t back = 0; back < std::min(turn, pages_); ++back) {
    std::uint64_t value = 0;
    store_->read(&value, sizeof value, (turn - 1 - back) % pages_ * GetParam().page_bytes + 8);
    EXPECT_EQ(value, turn - back);
  }
  if (writes_caught == 0 && meetings.load() < enough_meetings) {
    GTEST_SKIP() << "the two threads hardly ever ran at once: other work has the processors";
  }
  EXPECT_GT(writes_caught, 0U);
}

// Wild writes to a read-only region race with readers' faults. They raise SIGSEGV, or (in the window) are undone and
// told of late; the store never sees them, and once the writer is gone nobody does. The first one that is noticed seals
// the region, so there are many regions.
TEST_P(Window, WildWritesToAReadOnlyRegionNeverLast) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "its data races are on purpose";
#endif
  open(Access::read_only);
  const std::uint64_t late_before = SignalTrap::late_reports();
  std::uint64_t caught = 0;
  std::uint64_t slipped = 0;
  std::uint64_t seen = 0;
  std::uint64_t rounds = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  for (; std::chrono::steady_clock::now() < end; ++rounds) {
    std::atomic<std::uint64_t> position{0};
    std::atomic<bool> stop{false};
    std::thread writer([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        const std::uint64_t page = position.load(std::memory_order_relaxed);
        // Only into pages that the reader has begun to fault in: the sooner, the more often the window is met.
        const int number = page == 0 ? 0 : SignalTrap::store(word(page, 1), 0xBAD);
        EXPECT_TRUE(number == SIGSEGV || number == 0) << number;
        caught += number == SIGSEGV ? 1U : 0U;
        slipped += page != 0 && number == 0 ? 1U : 0U;
      }
    });
    for (std::uint64_t page = 0; page < std::min<std::uint64_t>(pages_, 24); ++page) {
      position.store(page, std::memory_order_relaxed);
      ASSERT_EQ(*word(page, 0), first_content(page));
      seen += *word(page, 1) != first_content(page) ? 1U : 0U;
    }
    stop.store(true);
    writer.join();
    for (std::uint64_t page = 0; page < std::min<std::uint64_t>(pages_, 24); ++page) {
      // Who placed it may not have come to look yet.
      const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (*const_cast<volatile std::uint64_t*>(word(page, 1)) != first_content(page) &&
             std::chrono::steady_clock::now() < latest) {
        std::this_thread::yield();
      }
      ASSERT_EQ(*word(page, 1), first_content(page)) << "page " << page << ", round " << rounds;
    }
    ASSERT_EQ(SignalTrap::store(word(0, 1), 0xBAD), SIGSEGV);
    region_.unmap();
    map();
  }
  std::printf("%llu regions, %llu writes raised SIGSEGV, %llu slipped into the window, %llu were seen while there\n",
              static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(caught),
              static_cast<unsigned long long>(slipped), static_cast<unsigned long long>(seen));
  EXPECT_GT(caught, 0U);
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (slipped > 0 && SignalTrap::late_reports() == late_before && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(slipped > 0, SignalTrap::late_reports() > late_before);
  for (std::uint64_t page = 0; page < pages_; ++page) {
    std::uint64_t value = 0;
    store_->read(&value, sizeof value, page * GetParam().page_bytes + 8);
    ASSERT_EQ(value, first_content(page));
  }
}

std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const FaultMode mode : {FaultMode::notify, FaultMode::self_serving}) {
    for (const std::uint64_t page_bytes : {4U << 10, 16U << 10, 64U << 10, 512U << 10, 2U << 20}) {
      result.push_back({{mode, Placement::move}, page_bytes});
    }
    result.push_back({{mode, Placement::copy}, 64 << 10});
    result.push_back({{mode, Placement::automatic}, 4 << 10});
    result.push_back({{mode, Placement::automatic}, 16 << 10});
  }
  return result;
}

std::string setting_name(const testing::TestParamInfo<Setting>& information) {
  return engine_name(information.param.engine) + "_" + std::to_string(information.param.page_bytes >> 10) + "K";
}

INSTANTIATE_TEST_SUITE_P(Settings, Window, testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace tiermap
