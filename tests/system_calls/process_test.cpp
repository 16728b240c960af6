// What a process does beside loads and stores: fork, signals, many threads, many regions, unmapping and destruction
// under load.
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

class Processes : public RegionFixture {
 protected:
  /// How the child ended; kills it if it does not within 10 s.
  template <typename Child>
  static int run_child(Child&& child) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::signal(SIGSEGV, SIG_DFL);
      ::signal(SIGBUS, SIG_DFL);
      child();
      ::_exit(0);
    }
    int status = -1;
    for (int tick = 0; tick < 1000; ++tick) {
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        return status;
      }
      ::usleep(10000);
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, &status, 0);
    ADD_FAILURE() << "the child hangs";
    return status;
  }
};

TEST_P(Processes, AChildThatTouchesARegionGetsSigsegv) {
  open(Access::read_write);
  words_[0] = 1;
  const int status = run_child([this] { static_cast<void>(words_[0]); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
  words_[0] = first_content(0);
  expect_content(0, store_bytes / 8);
}

TEST_P(Processes, ChildrenThatExitOrExecDoNotDisturbTheParent) {
  open(Access::read_write);
  std::atomic<bool> stop{false};
  std::thread load([&] {
    std::mt19937_64 random(3);
    while (!stop.load()) {
      const std::uint64_t word = random() % (store_bytes / 8);
      ASSERT_EQ(words_[word], first_content(word));
      words_[word] = first_content(word);
    }
  });
  for (int round = 0; round < 8; ++round) {
    EXPECT_EQ(run_child([] {}), 0);
    EXPECT_EQ(run_child([] { ::execl("/bin/true", "true", nullptr); }), 0);
  }
  stop.store(true);
  load.join();
  region_.sync();
  expect_content(0, store_bytes / 8);
}

TEST_P(Processes, AChildIsRefusedNewRegionsOfItsParentsCache) {
  open(Access::read_write);
  const int status = run_child([this] {
    const auto is_refused = [](auto&& call) {
      try {
        call();
      } catch (const Error& error) {
        return error.code().value() == ECHILD;
      }
      return false;
    };
    // Nobody would serve them there: what they read would be zeros.
    if (!is_refused([this] { static_cast<void>(cache_->map(store_)); }) ||
        !is_refused([this] { static_cast<void>(cache_->map("memory:1MiB")); }) ||
        !is_refused([this] { cache_->set_budget_bytes(cache_->budget_bytes()); }) ||
        !is_refused([this] { static_cast<void>(cache_->statistics()); })) {
      ::_exit(1);
    }
  });
  EXPECT_EQ(status, 0);
  expect_content(0, store_bytes / 8);
}

#if !defined(__SANITIZE_THREAD__)  // Which lets no child of several threads start one.
TEST_P(Processes, AChildIsServedItsOwnRegionsWhereItsParentHadOthers) {
  constexpr std::uint64_t part_bytes = 4 * page_bytes;
  constexpr std::uint64_t all_bytes = 3 * part_bytes;
  void* const reserved = ::mmap(nullptr, all_bytes + page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(reserved, MAP_FAILED);
  const auto place = reinterpret_cast<std::uintptr_t>(reserved);
  auto* const first = static_cast<std::byte*>(reserved) + (page_bytes - place % page_bytes) % page_bytes;
  RegionOptions options = region_options(Access::read_write);
  options.replacement = Replacement::reservation;
  options.address = first + part_bytes;
  cache_ = make_cache();
  store_ = make_store(part_bytes);
  region_ = cache_->map(store_, options);
  words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
  expect_content(0, part_bytes / 8);
  struct sigaction inherited{};
  ::sigaction(SIGBUS, nullptr, &inherited);
  const int status = run_child([&] {
    // Its parent's region left a gap, where the child's own cache could come to lie.
    ::mmap(first, all_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    ::sigaction(SIGBUS, &inherited, nullptr);
    const std::unique_ptr<Cache> cache = make_cache();
    options.address = first;
    const Region region = cache->map(make_store(all_bytes), options);
    const auto* const words = reinterpret_cast<const volatile std::uint64_t*>(region.data());
    for (std::uint64_t word = 0; word < all_bytes / 8; ++word) {
      if (words[word] != first_content(word)) {
        ::_exit(1);
      }
    }
  });
  EXPECT_EQ(status, 0);
  expect_content(0, part_bytes / 8);
  region_.unmap();
  ::munmap(reserved, all_bytes + page_bytes);
}
#endif

TEST_P(Processes, DestructorsInAChildDoNotHang) {
  open(Access::read_write);
  words_[0] = 5;
  const int status = run_child([this] {
    region_ = Region();
    cache_.reset();
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(words_[0], 5U);
  words_[page_bytes] = 6;
  region_.sync();
  std::uint64_t stored = 0;
  store_->read(&stored, 8, 0);
  EXPECT_EQ(stored, 5U);
}

// What a signal handler touches. Plain memory of the test, set before the timer starts.
volatile std::uint64_t* handler_words = nullptr;
constexpr std::uint64_t handler_word_count = (4 << 20) / 8;
std::atomic<std::uint64_t> handler_calls{0};
std::atomic<std::uint64_t> handler_errors{0};
thread_local std::uint64_t handler_state = 1;

void touch_in_handler(int) {
  const int errno_before = errno;
  handler_state = handler_state * 6364136223846793005ULL + 1442695040888963407ULL;
  const std::uint64_t word = (handler_state >> 33) % handler_word_count;
  // Other threads store the same values to the same words meanwhile.
  if (__atomic_load_n(&handler_words[word], __ATOMIC_RELAXED) != first_content(word)) {
    handler_errors.fetch_add(1);
  }
  if (word % 2 == 0) {
    __atomic_store_n(&handler_words[word], first_content(word), __ATOMIC_RELAXED);
  }
  handler_calls.fetch_add(1);
  errno = errno_before;
}

TEST_P(Processes, SignalHandlersMayTouchRegions) {
#if defined(__SANITIZE_THREAD__)
  if (GetParam().mode == FaultMode::self_serving) {
    GTEST_SKIP() << "ThreadSanitizer runs deferred signal handlers with SIGBUS blocked, and a fault there then kills";
  }
#endif
  open(Access::read_write);
  handler_words = words_;
  handler_calls.store(0);
  handler_errors.store(0);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = touch_in_handler;
  ::sigaction(SIGALRM, &action, &before);  // Without SA_RESTART: every call that can be interrupted is.
  const itimerval often{{0, 200}, {0, 200}};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  std::vector<std::thread> threads;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      while (std::chrono::steady_clock::now() < end) {
        for (int step = 0; step < 50; ++step) {
          const std::uint64_t word = random() % (store_bytes / 8);
          ASSERT_EQ(__atomic_load_n(&words_[word], __ATOMIC_RELAXED), first_content(word));
          __atomic_store_n(&words_[word], first_content(word), __ATOMIC_RELAXED);
        }
        const std::uint64_t page = random() % (pages - 4);
        region_.prefetch({page * page_bytes, 4 * page_bytes}).wait();
        region_.sync({page * page_bytes, page_bytes});
        region_.advise(Advice::dont_need, {page * page_bytes, page_bytes});
        try {
          region_.pin({page * page_bytes, page_bytes});
          region_.unpin({page * page_bytes, page_bytes});
        } catch (const Error& error) {
          EXPECT_EQ(error.code().value(), ENOMEM);
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(handler_calls.load(), 100U);
  EXPECT_EQ(handler_errors.load(), 0U);
  region_.sync();
  expect_content(0, store_bytes / 8);
}

std::atomic<int> own_handler_calls{0};
void own_handler(int, siginfo_t*, void*) {
  own_handler_calls.fetch_add(1);
}

TEST_P(Processes, SigbusOfOthersReachesTheHandlerThatWasThere) {
  own_handler_calls.store(0);
  struct sigaction action{};
  struct sigaction before{};
  action.sa_sigaction = own_handler;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &before);
  {
    open(Access::read_write);
    expect_content(0, 4096);
    ::raise(SIGBUS);
    EXPECT_EQ(own_handler_calls.load(), 1);
    expect_content(store_bytes / 16, 4096);
    region_.unmap();
    cache_.reset();
    ::raise(SIGBUS);
    EXPECT_EQ(own_handler_calls.load(), 2);
  }
  ::sigaction(SIGBUS, &before, nullptr);
}

TEST_P(Processes, RegionsAreUnmappedWhileFaultsOfOthersWait) {
  auto faulty = std::make_shared<FaultyStore>(make_store());
  faulty->on_read([](const FaultyStore::Call&) { return FaultyStore::stall(); });
  CacheOptions options;
  options.budget_bytes = 2 << 20;
  options.fault_mode = GetParam().mode;
  options.placement = GetParam().placement;
  options.fillers = 8;
  options.publish_statistics = false;
  Cache cache(options);
  const Region stalled = cache.map(faulty, region_options(Access::read_only));
  const auto* words = reinterpret_cast<const volatile std::uint64_t*>(stalled.data());
  std::vector<std::thread> waiting;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    waiting.emplace_back([=] { EXPECT_EQ(words[thread * page_bytes / 8], first_content(thread * page_bytes / 8)); });
  }
  while (faulty->stalled() < 4) {
    std::this_thread::yield();
  }
  const auto store = make_store();
  for (int round = 0; round < 20; ++round) {
    Region other = cache.map(store, region_options(Access::read_write));
    auto* mine = reinterpret_cast<volatile std::uint64_t*>(other.data());
    for (std::uint64_t page = 0; page < 100; ++page) {
      const std::uint64_t word = page * page_bytes / 8;
      ASSERT_EQ(mine[word], first_content(word));
      mine[word] = first_content(word);
    }
    other.unmap();
  }
  faulty->on_read(nullptr);
  faulty->release();
  for (std::thread& thread : waiting) {
    thread.join();
  }
}

TEST_P(Processes, AThousandRegionsOneCache) {
  const auto cache = make_cache();
  const auto store = make_store(64 << 10);
  std::vector<Region> regions;
  RegionOptions options = region_options(Access::read_write);
  options.page_size_bytes = 4096;
  for (int region = 0; region < 1000; ++region) {
    // Each its own store: what one writes is not the others' business.
    options.sharing = Sharing::private_copy;
    regions.push_back(cache->map(store, options));
  }
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int round = 0; round < 3; ++round) {
        for (std::size_t region = thread; region < regions.size(); region += 4) {
          auto* words = reinterpret_cast<volatile std::uint64_t*>(regions[region].data());
          const std::uint64_t expected = round == 0 ? first_content(512) : region + static_cast<std::uint64_t>(round);
          ASSERT_EQ(words[512], expected);
          words[512] = region + static_cast<std::uint64_t>(round) + 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t region = 0; region < regions.size(); region += 3) {
    regions[region].unmap();
  }
  for (std::size_t region = 1; region < regions.size(); region += 3) {
    ASSERT_EQ(reinterpret_cast<volatile std::uint64_t*>(regions[region].data())[512], region + 3);
  }
}

TEST_P(Processes, SixtyFourThreadsAndSeveralCaches) {
  std::vector<std::unique_ptr<Cache>> caches;
  std::vector<Region> regions;
  std::vector<std::shared_ptr<Store>> stores;
  for (int cache = 0; cache < 4; ++cache) {
    caches.push_back(make_cache());
    stores.push_back(make_store());
    regions.push_back(caches.back()->map(stores.back(), region_options(Access::read_write)));
  }
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 64; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      auto* words = reinterpret_cast<std::uint64_t*>(regions[thread % 4].data());
      for (int step = 0; step < 500; ++step) {
        const std::uint64_t word = random() % (store_bytes / 8);
        const std::atomic_ref<std::uint64_t> shared(words[word]);  // Sixteen threads a region meet on purpose.
        ASSERT_EQ(shared.load(std::memory_order_relaxed), first_content(word));
        shared.store(first_content(word), std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

// Mapped, used and unmapped by several threads at once, with prefetches and flushes still under way at the end.
TEST_P(Processes, UnmappingUnderLoad) {
  const auto cache = make_cache();
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      std::mt19937_64 random(thread);
      const auto store = make_store(1 << 20);
      for (int round = 0; round < 60; ++round) {
        RegionOptions options = region_options(Access::read_write);
        options.page_size_bytes = 4096U << (random() % 3);
        Region region = cache->map(store, options);
        auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
        region.prefetch({random() % (1 << 19), 1 << 19});
        for (int step = 0; step < 100; ++step) {
          const std::uint64_t word = random() % (1 << 17);
          ASSERT_EQ(words[word], first_content(word));
          words[word] = first_content(word);
        }
        region.flush();
        if (round % 2 == 0) {
          region.unmap();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(cache->statistics().resident_bytes, 0U);
}

TEST_P(Processes, CachesAreDestroyedWithWorkUnderWay) {
  for (int round = 0; round < 30; ++round) {
    const auto store = make_store(1 << 20);
    auto cache = make_cache(512 << 10);
    Region region = cache->map(store, region_options(Access::read_write));
    auto* words = reinterpret_cast<volatile std::uint64_t*>(region.data());
    for (std::uint64_t word = 0; word < (1 << 17); word += 1024) {
      words[word] = word;
    }
    region.prefetch({0, 1 << 20});
    region.flush();
    if (round % 2 == 0) {
      cache.reset();  // The wrong order, which must be harmless: the region keeps what it needs.
    }
    region = Region();
    std::uint64_t stored = 0;
    store->read(&stored, 8, 1024 * 8);
    EXPECT_EQ(stored, 1024U);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, Processes, testing::ValuesIn(all_engine_settings), engine_setting_name);

}  // namespace
}  // namespace tiermap
