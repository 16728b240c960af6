// Memory against the budget as the kernel counts it: a child process runs a load, a thread of its own reads the
// resident set all the time, and the kernel's own high-water mark is read at the end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>
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

using namespace std::chrono_literals;

// AddressSanitizer and ThreadSanitizer keep shadows of what is touched: there the resident set says nothing about us.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool measurable = false;
#else
constexpr bool measurable = true;
#endif

/// What is not for pages: stacks, rings, queues, page words of the regions. Measured: 1 to 3 MiB.
constexpr std::uint64_t allowance_bytes = 6 << 20;

std::uint64_t status_bytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    if (word == field) {
      std::uint64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes << 10;
    }
  }
  return 0;
}

/// The kernel's own high-water mark of this process, from when it is made.
class HighWaterMark {
 public:
  HighWaterMark() : set_back_(static_cast<bool>(std::ofstream("/proc/self/clear_refs") << 5 << std::flush)) {}
  /// How far the mark has risen, but for what the program itself has come to need of its files (code, libraries);
  /// 0 where the mark cannot be set back.
  std::uint64_t rise_bytes() const {
    const std::uint64_t expected = resident_before_ + status_bytes("RssFile:") - of_files_before_;
    const std::uint64_t mark = status_bytes("VmHWM:");
    return set_back_ && mark > expected ? mark - expected : 0;
  }

 private:
  const bool set_back_;
  const std::uint64_t resident_before_ = status_bytes("VmRSS:");
  const std::uint64_t of_files_before_ = status_bytes("RssFile:");
};

struct Setting {
  EngineSetting engine;
  std::vector<std::uint64_t> page_sizes;
};

class Budget : public testing::TestWithParam<Setting> {
 protected:
  std::unique_ptr<Cache> make_cache(std::uint64_t bytes) {
    CacheOptions options = cache_options(GetParam().engine, bytes);
    options.fillers = 3;
    options.evictors = 2;
    return std::make_unique<Cache>(options);
  }

  /// All of a store of the first page size, every page of it changed.
  Region map_and_change(Cache& cache, const std::shared_ptr<Store>& store) {
    RegionOptions options;
    options.access = Access::read_write;
    options.page_size_bytes = GetParam().page_sizes.front();
    Region region = cache.map(store, options);
    for (std::uint64_t word = 0; word < region.size() / 8; word += 512) {
      region.as_span<volatile std::uint64_t>()[word] = word;
    }
    return region;
  }

  void map_all(Cache& cache, std::uint64_t bytes) {
    for (const std::uint64_t page_bytes : GetParam().page_sizes) {
      const std::string path = directory_ / std::to_string(page_bytes);
      RegionOptions options;
      options.access = Access::read_write;
      options.length = bytes + page_bytes / 2 + 4096;  // The last page is shorter than its frame.
      options.page_size_bytes = page_bytes;
      regions_.push_back(cache.map(path, options));
    }
  }

  /// What a word of a region that map_all() made holds once it was written.
  static std::uint64_t content(std::uint64_t word) { return word + 1; }
  static constexpr std::uint64_t marked_step = 512;

  /// Writes the first word of every block: from then on none may be read as 0.
  void mark_all() {
    for (Region& region : regions_) {
      for (std::uint64_t word = 0; word < region.size() / 8; word += marked_step) {
        region.as_span<volatile std::uint64_t>()[word] = content(word);
      }
    }
    marked_ = true;
  }
  void check_marks() {
    for (Region& region : regions_) {
      for (std::uint64_t word = 0; word < region.size() / 8; word += marked_step) {
        const std::uint64_t found = region.as_span<volatile std::uint64_t>()[word];
        ASSERT_EQ(found, content(word)) << "page size " << region.page_size_bytes();
      }
    }
  }

  // Eight threads that read, write and prefetch everywhere, and look at what they read.
  void load(std::chrono::milliseconds time) {
    std::vector<std::thread> threads;
    const auto end = std::chrono::steady_clock::now() + time;
    for (std::uint64_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([this, thread, end] {
        std::mt19937_64 random(thread);
        while (std::chrono::steady_clock::now() < end) {
          Region& region = regions_[random() % regions_.size()];
          auto* words = reinterpret_cast<std::uint64_t*>(region.data());
          for (int step = 0; step < 20; ++step) {
            const bool marked = random() % 2 == 0;
            const std::uint64_t any = random() % (region.size() / 8);
            const std::uint64_t word = marked ? any / marked_step * marked_step : any;
            const std::atomic_ref<std::uint64_t> shared(words[word]);  // Threads meet on purpose.
            if (random() % 2 == 0) {
              shared.store(content(word), std::memory_order_relaxed);
              continue;
            }
            const std::uint64_t found = shared.load(std::memory_order_relaxed);
            if (found != content(word) && (found != 0 || (marked && marked_))) {
              ADD_FAILURE() << "word " << word << " holds " << found << ", page size " << region.page_size_bytes();
              return;
            }
          }
          if (random() % 8 == 0) {
            const std::uint64_t offset = random() % (region.size() / 2);
            region.prefetch({offset, region.size() / 4});
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }

  /// Runs a load in a child. The child returns the number of bytes it went over what it was allowed, at worst.
  template <typename Child>
  void in_child(Child&& child) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const std::uint64_t over = child();
      static_cast<void>(!::write(ends[1], &over, sizeof over));
      regions_.clear();
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    ::close(ends[1]);
    std::uint64_t over = ~std::uint64_t{0};
    EXPECT_EQ(::read(ends[0], &over, sizeof over), static_cast<ssize_t>(sizeof over));
    ::close(ends[0]);
    int status = -1;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0);
    std::printf("at worst %.2f MiB beside the budget\n", static_cast<double>(over) / (1 << 20));
    EXPECT_LE(over, allowance_bytes);
  }

  TemporaryDirectory directory_{"/dev/shm"};
  std::vector<Region> regions_;
  bool marked_ = false;
};

TEST_P(Budget, ResidentMemoryStaysUnderItAtEveryMoment) {
  if (!measurable) {
    GTEST_SKIP() << "sanitizers change what is resident";
  }
  constexpr std::uint64_t budget = 48 << 20;
  in_child([&] {
    const Watchdog watchdog("budget", 60s);
    const HighWaterMark mark;
    const std::uint64_t before = status_bytes("RssAnon:");
    const auto cache = make_cache(budget);
    map_all(*cache, 64 << 20);
    std::atomic<bool> stop{false};
    std::uint64_t most = 0;
    std::thread sampler([&] {
      while (!stop.load()) {
        most = std::max(most, status_bytes("RssAnon:"));
      }
    });
    load(1500ms);
    stop.store(true);
    sampler.join();
    EXPECT_GT(most, before + budget / 2);
    const std::uint64_t rise = std::max(most - before, mark.rise_bytes());
    return rise > budget ? rise - budget : 0;
  });
}

TEST_P(Budget, ItCanBeChangedUnderLoad) {
  if (!measurable) {
    GTEST_SKIP() << "sanitizers change what is resident";
  }
  in_child([&] {
    const Watchdog watchdog("budget changes", 60s);
    const std::uint64_t before = status_bytes("RssAnon:");
    const auto cache = make_cache(64 << 20);
    map_all(*cache, 48 << 20);
    mark_all();
    std::thread loader([this] { load(1500ms); });
    std::mt19937_64 random(5);
    std::uint64_t worst = 0;
    const std::uint64_t least = cache->minimum_budget_bytes();
    for (int round = 0; round < 12; ++round) {
      const std::uint64_t budget = least + random() % (48 << 20);
      cache->set_budget_bytes(budget);
      EXPECT_EQ(cache->budget_bytes(), budget);
      for (int sample = 0; sample < 10; ++sample) {
        const std::uint64_t now = status_bytes("RssAnon:");
        worst = std::max(worst, now > before + budget ? now - before - budget : 0);
        std::this_thread::sleep_for(8ms);
      }
    }
    loader.join();
    check_marks();
    cache->set_budget_bytes(least);
    load(100ms);
    const std::uint64_t now = status_bytes("RssAnon:");
    return std::max(worst, now > before + least ? now - before - least : 0);
  });
}

TEST_P(Budget, PinnedPagesKeepTheirs) {
  const auto cache = make_cache(64 << 20);
  map_all(*cache, 16 << 20);
  Region& region = regions_.front();
  const std::uint64_t free_for_pins = cache->budget_bytes() - cache->minimum_budget_bytes();
  const ByteRange pinned{0, std::min<std::uint64_t>(free_for_pins / 2, region.size() / 2)};
  const std::uint64_t least_before = cache->minimum_budget_bytes();
  region.pin(pinned);
  EXPECT_GE(cache->minimum_budget_bytes(), least_before + pinned.bytes);
  const std::uint64_t budget = cache->budget_bytes();
  EXPECT_THROW(cache->set_budget_bytes(least_before), Error);
  EXPECT_EQ(cache->budget_bytes(), budget) << "the old one stays";
  cache->set_budget_bytes(cache->minimum_budget_bytes());
  load(100ms);
  region.unpin(pinned);
  cache->set_budget_bytes(least_before);
  EXPECT_LE(cache->statistics().resident_bytes, least_before);
  EXPECT_THROW(region.pin(pinned), Error);
  EXPECT_EQ(cache->minimum_budget_bytes(), least_before) << "a pin that failed pins nothing";
  load(100ms);
}

TEST_P(Budget, UnwritablePagesKeepTheOldBudget) {
  const auto cache = make_cache(64 << 20);
  const auto store = std::make_shared<FaultyStore>(open_store("memory:16MiB", OpenMode::open_or_create));
  const Region region = map_and_change(*cache, store);
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  try {
    cache->set_budget_bytes(std::max<std::uint64_t>(cache->minimum_budget_bytes(), 1 << 20));
    ADD_FAILURE() << "16 MiB of dirty pages cannot go";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), ENOMEM) << error.what();
  }
  EXPECT_EQ(cache->budget_bytes(), std::uint64_t{64} << 20);
  store->on_write(nullptr);
  cache->set_budget_bytes(std::max<std::uint64_t>(cache->minimum_budget_bytes(), 1 << 20));
  for (std::uint64_t word = 0; word < region.size() / 8; word += 512) {
    ASSERT_EQ(region.as_span<volatile std::uint64_t>()[word], word);
  }
}

// One evictor is slow, and its last batch failed; the other one's success says that the store works again.
TEST_P(Budget, SlowWritesAfterFailedOnesAreWaitedFor) {
  const auto cache = make_cache(64 << 20);
  const auto store = std::make_shared<FaultyStore>(open_store("memory:16MiB", OpenMode::open_or_create));
  const Region region = map_and_change(*cache, store);
  const std::uint64_t least = std::max<std::uint64_t>(cache->minimum_budget_bytes(), 1 << 20);
  store->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  EXPECT_THROW(cache->set_budget_bytes(least), Error);
  std::atomic<bool> first{true};
  store->on_write([&](const FaultyStore::Call&) {
    return first.exchange(false) ? FaultyStore::delay(std::chrono::milliseconds(700)) : FaultyStore::pass();
  });
  cache->set_budget_bytes(least);
  EXPECT_EQ(cache->budget_bytes(), least);
  store->on_write(nullptr);
}

// Pages of a sealed region come by copy, which takes two frames while it lasts.
TEST_P(Budget, TheLeastWillDoForARegionThatRefusedAWrite) {
  const SignalTrap trap;
  auto cache = make_cache(64 << 20);
  const std::string path = directory_ / "sealed";
  const std::uint64_t page_bytes = GetParam().page_sizes.back();
  write_file(path, std::string(page_bytes * 6, 'x'));
  RegionOptions options;
  options.page_size_bytes = page_bytes;
  options.read_ahead_bytes = 0;
  const Region one = cache->map(path, options);
  const Region other = cache->map(path, options);
  for (const Region* region : {&one, &other}) {
    EXPECT_EQ(SignalTrap::store(region->as_span<volatile std::uint64_t>().data(), 1), SIGSEGV);
  }
  cache->set_budget_bytes(cache->minimum_budget_bytes());
#if defined(__x86_64__)
  for (std::uint64_t page = 1; page < 6; ++page) {  // One instruction that needs four pages at once.
    const std::byte* from = one.data() + page * page_bytes - 4;
    const std::byte* to = other.data() + page * page_bytes - 4;
    bool equal = false;
    asm volatile("cmpsq" : "+S"(from), "+D"(to), "=@ccz"(equal) : : "memory");
    EXPECT_TRUE(equal);
  }
#endif
}

std::vector<Setting> settings() {
  std::vector<Setting> result;
  for (const EngineSetting& engine : all_engine_settings) {
    result.push_back({engine, {4 << 10, 64 << 10}});
    result.push_back({engine, {16 << 10, 2 << 20}});
    if (engine.placement != Placement::automatic) {  // Which is to move such pages.
      result.push_back({engine, {256 << 10, 4 << 20}});
    }
  }
  return result;
}

std::string setting_name(const testing::TestParamInfo<Setting>& information) {
  return engine_name(information.param.engine) + "_" + std::to_string(information.param.page_sizes.back() >> 10) + "K";
}

INSTANTIATE_TEST_SUITE_P(Settings, Budget, testing::ValuesIn(settings()), setting_name);

}  // namespace
}  // namespace tiermap
