// The thread that follows the machine, on a /proc of the test's own; and a real cache that gives memory back.
#include "region/budget_adapter.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>

#include "config/resolve.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

template <typename Condition>
bool eventually(Condition&& condition) {
  for (int look = 0; look < 1000; ++look) {
    if (condition()) {
      return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class BudgetAdapterTest : public ::testing::Test {
 protected:
  BudgetAdapterTest() {
    std::filesystem::create_directories(root_ / "proc/pressure");
    CacheOptions options;
    options.budget_bytes = 64 * mebibyte;
    options.adapt_period_milliseconds = 10;
    options.adapt_history_periods = 2;
    options.publish_statistics = false;
    resolved_ = resolve(options);
    machine_has(1000);
  }

  /// A machine of 1024 MiB, so that the reserve is 64 MiB. Put into place whole: it is read at any time.
  void machine_has(std::uint64_t available) {
    write_file(root_ / "meminfo", "MemTotal: 1048576 kB\nMemAvailable: " + std::to_string(available * 1024) + " kB\n");
    std::filesystem::rename(root_ / "meminfo", root_ / "proc/meminfo");
  }

  BudgetAdapter::Hooks hooks_for_number() {
    BudgetAdapter::Hooks hooks;
    hooks.sample = [this] {
      return BudgetAdapter::Sample{
          .budget_bytes = budget_, .used_bytes = budget_, .faults = ++faults_, .minimum_bytes = mebibyte};
    };
    hooks.set_budget = [this](std::uint64_t bytes) {
      ++calls_;
      if (refuse_) {
        throw std::runtime_error("pinned");
      }
      budget_ = bytes;
    };
    return hooks;
  }

  TemporaryDirectory root_;
  ResolvedCacheOptions resolved_{};
  std::atomic<std::uint64_t> budget_{64 * mebibyte};
  std::atomic<std::uint64_t> faults_{0};
  std::atomic<int> calls_{0};
  std::atomic<bool> refuse_{false};
};

TEST_F(BudgetAdapterTest, RaisesToTheCeilingWhileThereIsPlentyAndReducesWhenThereIsNot) {
  const BudgetAdapter adapter(resolved_, 128 * mebibyte, hooks_for_number(), root_.path());
  // 64, 80, 100, 125: what is left to the ceiling is under a sixteenth.
  EXPECT_TRUE(eventually([&] { return budget_ == 125 * mebibyte; }));
  machine_has(32);
  EXPECT_TRUE(eventually([&] { return budget_ < 64 * mebibyte; }));
  EXPECT_GE(budget_, mebibyte);
}

TEST_F(BudgetAdapterTest, KeepsTheBudgetThatCannotBeChangedAndTriesAgain) {
  refuse_ = true;
  machine_has(32);
  const BudgetAdapter adapter(resolved_, 128 * mebibyte, hooks_for_number(), root_.path());
  EXPECT_TRUE(eventually([&] { return calls_ > 2; }));
  EXPECT_EQ(budget_, 64 * mebibyte);
  refuse_ = false;
  EXPECT_TRUE(eventually([&] { return budget_ < 64 * mebibyte; }));
}

TEST_F(BudgetAdapterTest, ChangesNothingWithoutProc) {
  std::filesystem::remove(root_ / "proc/meminfo");
  const BudgetAdapter adapter(resolved_, 128 * mebibyte, hooks_for_number(), root_.path());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(calls_, 0);
}

TEST_F(BudgetAdapterTest, ARealCacheGivesMemoryBack) {
  for (const FaultMode mode : {FaultMode::automatic, FaultMode::kernel}) {
    CacheOptions options;
    options.fault_mode = mode;
    options.budget_bytes = 32 * mebibyte;
    options.publish_statistics = false;
    Cache cache(options);
    RegionOptions writable;
    writable.access = Access::read_write;
    writable.length = 64 * mebibyte;
    Region region = cache.map(root_ / "data.bin", writable);
    for (std::size_t at = 0; at < region.size(); at += 4096) {
      region.data()[at] = static_cast<std::byte>(at >> 12);
    }
    BudgetAdapter::Hooks hooks;
    hooks.sample = [&] {
      const Statistics now = cache.statistics();
      return BudgetAdapter::Sample{.budget_bytes = now.budget_bytes,
                                   .used_bytes = now.resident_bytes,
                                   .faults = now[Counter::fills],
                                   .minimum_bytes = cache.minimum_budget_bytes()};
    };
    hooks.set_budget = [&](std::uint64_t bytes) { cache.set_budget_bytes(bytes); };
    machine_has(48);  // 16 MiB under the reserve.
    {
      const BudgetAdapter adapter(resolved_, 32 * mebibyte, hooks, root_.path());
      EXPECT_TRUE(eventually([&] { return cache.budget_bytes() <= 16 * mebibyte; }));
    }
    EXPECT_LE(cache.statistics().resident_bytes, cache.budget_bytes());
    for (std::size_t at = 0; at < region.size(); at += 4096) {
      ASSERT_EQ(region.data()[at], static_cast<std::byte>(at >> 12)) << at;
    }
    machine_has(1000);
  }
}

}  // namespace
}  // namespace tiermap
