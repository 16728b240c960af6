// A cache that was asked to adapt has the thread that does it, and its budget moves; one that was not has neither.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "platform/memory_limits.hpp"
#include "region/budget_adapter.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

/// How many threads of this process adapt a budget.
int adapting_threads() {
  int count = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", gone)) {
    std::ifstream file(task.path() / "comm");
    std::string name;
    count += std::getline(file, name) && name == "tm-adapt" ? 1 : 0;
  }
  return count;
}

/// A thread gives itself its name, a moment after it was started.
bool eventually_has_threads(int count) {
  for (int look = 0; look < 1000 && adapting_threads() != count; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return adapting_threads() == count;
}

/// Why no budget could be expected to move now; empty if it should.
std::string reason_to_stay(std::uint64_t budget_bytes) {
  const MachineMemory machine = read_machine_memory();
  const std::uint64_t reserve = std::min(machine.total, machine.cgroup_limit) / 16;
  if (machine.pressure_some_avg10.value_or(0) >= BudgetForecast::pressure_that_forbids_raising) {
    return "the machine is under memory pressure";
  }
  return machine.usable_bytes() > 2 * reserve + 4 * budget_bytes ? "" : "the machine has too little memory to spare";
}

class AdaptingCache : public ::testing::TestWithParam<FaultMode> {
 protected:
  static constexpr std::uint64_t budget = 16 * mebibyte;

  static CacheOptions options(std::optional<bool> adapt) {
    CacheOptions options;
    options.fault_mode = GetParam();
    options.budget_bytes = budget;
    options.adapt_budget = adapt;
    options.adapt_period_milliseconds = 10;
    options.adapt_history_periods = 2;
    options.publish_statistics = false;
    return options;
  }
  /// Reads eight times the budget, once.
  static void read_all(const Region& region) {
    for (std::size_t at = 0; at < region.size(); at += 4096) {
      static_cast<void>(*static_cast<const volatile std::byte*>(region.data() + at));
    }
  }
  Region map(Cache& cache) const {
    RegionOptions writable;
    writable.access = Access::read_write;
    writable.length = 8 * budget;
    return cache.map(directory_ / "data.bin", writable);
  }

  TemporaryDirectory directory_;
};

TEST_P(AdaptingCache, HasAThreadThatMovesTheBudget) {
  {
    Cache cache(options(true));
    EXPECT_TRUE(eventually_has_threads(1));
    const Region region = map(cache);
    std::string reason;
    for (int turn = 0; turn < 100 && cache.budget_bytes() == budget; ++turn) {
      read_all(region);
      reason = reason_to_stay(cache.budget_bytes());
    }
    if (cache.budget_bytes() == budget && !reason.empty()) {
      GTEST_SKIP() << reason;
    }
    EXPECT_NE(cache.budget_bytes(), budget);
  }
  EXPECT_TRUE(eventually_has_threads(0));
}

TEST_P(AdaptingCache, DoesNotUnlessAsked) {
  for (const std::optional<bool> adapt : {std::optional<bool>(), std::optional<bool>(false)}) {
    Cache cache(options(adapt));
    const Region region = map(cache);
    for (int turn = 0; turn < 3; ++turn) {
      read_all(region);
      EXPECT_EQ(adapting_threads(), 0);
    }
    EXPECT_EQ(cache.budget_bytes(), budget);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, AdaptingCache, ::testing::Values(FaultMode::automatic, FaultMode::kernel),
                         [](const ::testing::TestParamInfo<FaultMode>& mode) {
                           return std::string(mode.param == FaultMode::kernel ? "kernel" : "automatic");
                         });

}  // namespace
}  // namespace tiermap
