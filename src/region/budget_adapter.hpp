// The budget follows the machine: a thread that looks at free memory once a period, and gives memory back before it
// runs short or takes more while there is plenty (Peng et al., TPDS, section 3.1.1).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "config/resolve.hpp"

namespace tiermap {

/// One look, at the end of a period.
struct BudgetSample {
  std::uint64_t budget_bytes = 0;  ///< In force.
  std::uint64_t used_bytes = 0;    ///< Of it, by pages.
  std::uint64_t faults = 0;        ///< Served so far.
  std::uint64_t usable_bytes = 0;  ///< What the process may still take of the machine and its control group.
  std::uint64_t total_bytes = 0;   ///< Of the machine, or the control group's limit if that is less.
  double pressure_percent = 0;     ///< PSI, some, avg10; 0 if the kernel does not say.
};

/// The decision, a function of the samples alone. Not thread-safe.
///
/// Over the last N periods the change of used_bytes is averaged; a period without faults counts as no change. Over the
/// next M periods use is expected to grow by M times that, if it is growth, at most to the budget. The reserve, which
/// stays free for others, is a sixteenth of total_bytes.
/// - Reduce, if that growth leaves the machine less than the reserve: to what is used, and what may still be taken
///   beyond the reserve (or less what is missing of it).
/// - Raise, if that growth leaves less than an eighth of the budget free while faults come, and the machine has twice
///   the reserve beside what the budget may still fill: by a quarter, at most half of what lies beyond that.
/// Either waits for N changes seen since the last change of the budget, but for a reduction when the reserve is touched
/// already; nothing changes by less than a sixteenth of the budget. Pressure from 10 % on forbids raising, from 40 % on
/// takes an eighth off. The result lies between floor and ceiling; the floor wins.
class BudgetForecast {
 public:
  struct Settings {
    std::uint32_t history_periods = 5;
    std::uint32_t forecast_periods = 10;
    std::uint64_t floor_bytes = 0;
    std::uint64_t ceiling_bytes = 0;
  };
  explicit BudgetForecast(const Settings& settings) : settings_(settings) {}

  /// The new budget, or nothing.
  std::optional<std::uint64_t> decide(const BudgetSample& sample);
  /// The floor moves with the regions mapped.
  void set_floor_bytes(std::uint64_t bytes) { settings_.floor_bytes = bytes; }

  static constexpr double pressure_that_forbids_raising = 10;
  static constexpr double pressure_that_reduces = 40;

 private:
  std::uint64_t growth() const;
  std::optional<std::uint64_t> wanted(const BudgetSample& sample) const;

  Settings settings_;
  std::deque<BudgetSample> history_;  ///< At most N + 1: N changes.
};

/// Owns the thread. Start it when what the hooks use is ready; destroy it before that goes.
class BudgetAdapter {
 public:
  /// What the cache says of itself.
  struct Sample {
    std::uint64_t budget_bytes = 0;
    std::uint64_t used_bytes = 0;
    std::uint64_t faults = 0;         ///< Served so far.
    std::uint64_t minimum_bytes = 0;  ///< The least budget that can work now.
  };
  /// Called from the thread, one at a time. set_budget may throw: then the old budget stays.
  struct Hooks {
    std::function<Sample()> sample;
    std::function<void(std::uint64_t)> set_budget;
  };
  /// `ceiling_bytes` is never exceeded. `root` is where /proc and /sys are looked for.
  BudgetAdapter(const ResolvedCacheOptions& options, std::uint64_t ceiling_bytes, Hooks hooks, std::string root = "/");
  ~BudgetAdapter();
  BudgetAdapter(const BudgetAdapter&) = delete;
  BudgetAdapter& operator=(const BudgetAdapter&) = delete;

 private:
  void run();
  void step();

  const std::uint32_t period_milliseconds_;
  const Hooks hooks_;
  const std::string root_;
  BudgetForecast forecast_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace tiermap
