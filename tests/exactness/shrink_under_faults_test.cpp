// A region that shrinks while threads break the rule and touch the part that goes, in a cache with room for a few
// pages: those threads get a signal, and nobody else does.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "exactness/engine_setting.hpp"
#include "exactness/signal_trap.hpp"
#include "exactness/watchdog.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t page_bytes = 64 << 10;

class ShrinkUnderFaults : public testing::TestWithParam<EngineSetting> {
 protected:
  void touch_until_done(const Region& region, std::uint64_t pages, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    while (!done_) {
      // The thread that is here when the part goes gets a signal, and goes on.
      SignalTrap::store(reinterpret_cast<volatile std::uint64_t*>(region.data() + random() % pages * page_bytes), 1);
    }
  }

  SignalTrap trap_;  // Before the first cache.
  Watchdog watchdog_{"shrink under faults", 60s};
  std::atomic<bool> done_ = false;
  std::atomic<bool> all_done_ = false;
};

TEST_P(ShrinkUnderFaults, OthersGetNoSignal) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Cache cache(cache_options(GetParam(), 8 << 20));
  Region kept = cache.map("memory:1MiB", {.access = Access::read_write, .page_size_bytes = page_bytes});
  cache.set_budget_bytes(cache.minimum_budget_bytes());
  std::atomic<int> signal = 0;
  std::thread bystander([&] {
    std::mt19937_64 random(seed);
    while (!all_done_) {
      auto* const word = reinterpret_cast<volatile std::uint64_t*>(kept.data() + random() % 16 * page_bytes);
      if (const int number = SignalTrap::store(word, 1); number != 0) {
        signal = number;
      }
    }
  });
  for (int round = 0; round < 4; ++round) {
    done_ = false;
    Region region = cache.map("memory:64MiB",
                              {.access = Access::read_write, .length = 12 * page_bytes, .page_size_bytes = page_bytes});
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 8; ++thread) {
      threads.emplace_back([&, thread] { touch_until_done(region, 12, seed + thread); });
    }
    std::this_thread::sleep_for(3ms);
    region.resize(page_bytes + 100);
    done_ = true;
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  all_done_ = true;
  bystander.join();
  EXPECT_EQ(signal, 0);
}

INSTANTIATE_TEST_SUITE_P(Engines, ShrinkUnderFaults, testing::ValuesIn(all_engine_settings),
                         [](const auto& setting) { return engine_name(setting.param); });

}  // namespace
}  // namespace tiermap
