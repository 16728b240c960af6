// Signal handlers that interrupted malloc() and touch a region: the heap's lock is held by the thread that waits for
// the engine, so the engine must do without the heap.
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "system_calls/heap_calls.hpp"
#include "system_calls/region_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t word_count = (4 << 20) / 8;
volatile std::uint64_t* handler_words = nullptr;
std::atomic<std::uint64_t> handler_calls{0};
std::atomic<std::uint64_t> handler_state{1};

void touch_and_change(int) {
  const int errno_before = errno;
  std::uint64_t word = (handler_state.fetch_add(0x9E3779B97F4A7C15ULL, std::memory_order_relaxed) >> 33) % word_count;
  word -= word % 512 == 511 ? 1U : 0U;  // That one others change.
  __atomic_store_n(&handler_words[word], __atomic_load_n(&handler_words[word], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
  handler_calls.fetch_add(1);
  errno = errno_before;
}

class InterruptedAllocations : public RegionFixture {
 protected:
  void SetUp() override {
    if (!heap_is_the_systems) {
      GTEST_SKIP() << "the sanitizers' heap is another";
    }
  }

  void open_kind(StoreKind kind) {
    region_ = Region();
    made_ = std::make_unique<TestStore>(kind, store_bytes / 8, 1);
    cache_ = make_cache();
    region_ = cache_->map(made_->open(), region_options(Access::read_write));
    words_ = reinterpret_cast<volatile std::uint64_t*>(region_.data());
  }

  void TearDown() override { region_ = Region(); }

  // What a program may do beside: changes, prefetches, background and other writing.
  void use(std::chrono::milliseconds duration, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto end = std::chrono::steady_clock::now() + duration;
    while (std::chrono::steady_clock::now() < end) {
      for (int step = 0; step < 50; ++step) {
        // The last word of a block changes, so that there is something to write; the others keep what the store gave
        // them.
        const std::uint64_t word = random() % word_count;
        __atomic_store_n(&words_[word], __atomic_load_n(&words_[word], __ATOMIC_RELAXED), __ATOMIC_RELAXED);
        __atomic_store_n(&words_[word | 511], random(), __ATOMIC_RELAXED);
      }
      const std::uint64_t page = random() % (pages - 8);
      region_.prefetch({page * page_bytes, 8 * page_bytes});
      region_.flush({page * page_bytes, 8 * page_bytes});
      region_.sync({page * page_bytes, page_bytes});
    }
  }

  std::unique_ptr<TestStore> made_;
};

void allocate_and_free(std::chrono::milliseconds duration, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    void* pieces[50];
    for (void*& piece : pieces) {
      piece = std::malloc(2000 + random() % 100000);  // Too large for a thread's own cache: the lock is wanted.
      *static_cast<volatile char*>(piece) = 1;
    }
    for (void* piece : pieces) {
      std::free(piece);
    }
  }
}

TEST_P(InterruptedAllocations, HandlersMayTouchRegions) {
  if (std::getenv("MALLOC_ARENA_MAX") == nullptr) {
    // One heap for all threads has to be asked for before the program starts.
    const std::string only = std::string("--gtest_filter=Engines/InterruptedAllocations.") +
                             testing::UnitTest::GetInstance()->current_test_info()->name();
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setenv("MALLOC_ARENA_MAX", "1", 1);
      ::execl("/proc/self/exe", "test-system_calls", only.c_str(), nullptr);
      ::_exit(127);
    }
    // No watchdog of the child's own would do: the signal may come to its thread too.
    int status = -1;
    for (int tick = 0; tick < 3000 && ::waitpid(pid, &status, WNOHANG) == 0; ++tick) {
      if (tick == 2900) {
        ADD_FAILURE() << "the child hangs";
        ::kill(pid, SIGKILL);
      }
      ::usleep(10000);
    }
    EXPECT_EQ(status, 0);
    return;
  }
  for (const StoreKind kind : {StoreKind::file_on_disk, StoreKind::sparse, StoreKind::memory}) {
    open_kind(kind);
    handler_words = words_;
    handler_calls.store(0);
    struct sigaction action{};
    struct sigaction before{};
    action.sa_handler = touch_and_change;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before);
    const itimerval often{{0, 300}, {0, 300}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    constexpr std::chrono::milliseconds duration{600};
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([=] { allocate_and_free(duration, thread); });
    }
    threads.emplace_back([this, duration] { use(duration, 7); });
    allocate_and_free(duration, 9);
    for (std::thread& thread : threads) {
      thread.join();
    }
    const itimerval never{};
    ::setitimer(ITIMER_REAL, &never, nullptr);
    ::sigaction(SIGALRM, &before, nullptr);
    EXPECT_GT(handler_calls.load(), 50U) << kind_name(kind);
    for (std::uint64_t word = 0; word < word_count; ++word) {
      if (word % 512 != 511) {
        ASSERT_EQ(words_[word], made_->initial(word)) << kind_name(kind) << " " << word;
      }
    }
  }
}

TEST_P(InterruptedAllocations, TheEngineDoesWithoutTheHeap) {
  for (const StoreKind kind : {StoreKind::file_on_disk, StoreKind::sparse, StoreKind::memory}) {
    open_kind(kind);
    watch_heap_calls(true);
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([this, thread] { use(std::chrono::milliseconds(300), thread); });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    watch_heap_calls(false);
    EXPECT_EQ(heap_calls_of_engine(), 0U) << kind_name(kind);
    EXPECT_GT(cache_->statistics()[Counter::fills], 100U) << kind_name(kind);
    EXPECT_GT(cache_->statistics()[Counter::write_backs], 10U) << kind_name(kind);
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, InterruptedAllocations, testing::ValuesIn(all_engine_settings), engine_setting_name);

}  // namespace
}  // namespace tiermap
