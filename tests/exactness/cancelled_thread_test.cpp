// Threads that are cancelled while they load, store and sync: a load is no cancellation point, the process goes on, and
// no page is left half done.
#include <gtest/gtest.h>
#include <pthread.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "exactness/engine_setting.hpp"
#include "exactness/store_kinds.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t store_bytes = 8 << 20;
constexpr std::uint64_t page_bytes = 16 << 10;
constexpr std::uint64_t page_words = page_bytes / 8;

/// What a thread that is to be cancelled works on.
struct Work {
  Region* region = nullptr;
  std::uint64_t seed = 0;
  bool syncs = false;
};

void* store_until_cancelled(void* argument) {
  const Work& work = *static_cast<Work*>(argument);
  std::mt19937_64 random(work.seed);
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(work.region->data());
  for (std::uint64_t step = 1;; ++step) {
    const std::uint64_t page = random() % (store_bytes / page_bytes);
    words[page * page_words] = page;
    if (work.syncs && step % 64 == 0) {
      work.region->sync();
    }
    pthread_testcancel();
  }
}

class CancelledThreads : public testing::TestWithParam<EngineSetting> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizers take the stack that a cancelled thread leaves for a stack that overflowed";
#endif
  }
  void cancel_many(bool syncs) {
    const std::uint64_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    for (std::uint64_t round = 0; round < 60; ++round) {
      Work work{&region_, random(), syncs};
      pthread_t thread{};
      ASSERT_EQ(pthread_create(&thread, nullptr, store_until_cancelled, &work), 0);
      std::this_thread::sleep_for(std::chrono::microseconds(500 + random() % 2000));
      pthread_cancel(thread);
      ASSERT_EQ(pthread_join(thread, nullptr), 0);
    }
    auto* const words = reinterpret_cast<volatile std::uint64_t*>(region_.data());
    for (std::uint64_t page = 0; page < store_bytes / page_bytes; ++page) {
      const std::uint64_t word = words[page * page_words];
      ASSERT_TRUE(word == page || word == first_content(page * page_words)) << "page " << page;
      words[page * page_words] = page;
    }
    region_.sync();
    for (std::uint64_t page = 0; page < store_bytes / page_bytes; ++page) {
      std::uint64_t word = ~std::uint64_t{0};
      store_->read(&word, sizeof word, page * page_bytes);
      ASSERT_EQ(word, page);
    }
  }

  Watchdog watchdog_{"cancelled threads", 60s};
  /// Files are read by the thread that faults, where it may: pread() is a point where a thread may be cancelled.
  TestStore file_{StoreKind::file_on_disk, store_bytes / 8, 1};
  std::shared_ptr<Store> store_ = file_.open();
  Cache cache_{cache_options(GetParam(), 1 << 20)};
  Region region_ = cache_.map(store_, {.access = Access::read_write, .page_size_bytes = page_bytes});
};

TEST_P(CancelledThreads, LoadsAndStoresAreNoCancellationPoints) {
  cancel_many(false);
}

TEST_P(CancelledThreads, NorIsSync) {
  cancel_many(true);
}

INSTANTIATE_TEST_SUITE_P(Engines, CancelledThreads, testing::ValuesIn(all_engine_settings),
                         [](const auto& setting) { return engine_name(setting.param); });

}  // namespace
}  // namespace tiermap
