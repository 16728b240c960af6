#include "region/budget_adapter.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/memory_limits.hpp"

namespace tiermap {

std::optional<std::uint64_t> BudgetForecast::decide(const BudgetSample& sample) {
  history_.push_back(sample);
  while (history_.size() > settings_.history_periods + 1U) {
    history_.pop_front();
  }
  std::optional<std::uint64_t> result = wanted(sample);
  if (!result) {
    return std::nullopt;
  }
  const std::uint64_t budget = sample.budget_bytes;
  result = std::max(std::min(*result, settings_.ceiling_bytes), settings_.floor_bytes);
  const std::uint64_t change = *result > budget ? *result - budget : budget - *result;
  if (change == 0 || change < budget / 16) {
    return std::nullopt;
  }
  history_.clear();
  history_.push_back(sample);
  return result;
}

/// What is expected to be used in addition over the next M periods, before the budget stops it.
std::uint64_t BudgetForecast::growth() const {
  std::int64_t sum = 0;
  for (std::size_t index = 1; index < history_.size(); ++index) {
    const BudgetSample& before = history_[index - 1];
    const BudgetSample& after = history_[index];
    if (after.faults != before.faults) {
      sum += static_cast<std::int64_t>(after.used_bytes) - static_cast<std::int64_t>(before.used_bytes);
    }
  }
  if (sum <= 0) {
    return 0;
  }
  return static_cast<std::uint64_t>(sum) * settings_.forecast_periods / settings_.history_periods;
}

std::optional<std::uint64_t> BudgetForecast::wanted(const BudgetSample& sample) const {
  const bool history_full = history_.size() == settings_.history_periods + 1U;
  const std::uint64_t reserve = sample.total_bytes / 16;
  const std::uint64_t budget = sample.budget_bytes;
  const std::uint64_t unfilled = budget - std::min(budget, sample.used_bytes);
  if (!history_full && sample.usable_bytes >= reserve) {
    return std::nullopt;
  }
  const std::uint64_t expected = growth();
  if (sample.usable_bytes < reserve) {
    const std::uint64_t missing = reserve - sample.usable_bytes;
    return sample.used_bytes - std::min(sample.used_bytes, missing);
  }
  if (sample.usable_bytes - reserve < std::min(expected, unfilled)) {
    return sample.used_bytes + (sample.usable_bytes - reserve);
  }
  if (sample.pressure_percent >= pressure_that_reduces) {
    return budget - budget / 8;
  }
  const bool faulting = history_.back().faults != history_[history_.size() - 2].faults;
  const bool exhausted = expected + budget / 8 > unfilled;
  const std::uint64_t kept = 2 * reserve + unfilled;
  if (faulting && exhausted && sample.pressure_percent < pressure_that_forbids_raising && sample.usable_bytes > kept) {
    return budget + std::min(budget / 4, (sample.usable_bytes - kept) / 2);
  }
  return std::nullopt;
}

BudgetAdapter::BudgetAdapter(const ResolvedCacheOptions& options, std::uint64_t ceiling_bytes, Hooks hooks,
                             std::string root)
    : period_milliseconds_(options.adapt_period_milliseconds),
      hooks_(std::move(hooks)),
      root_(std::move(root)),
      forecast_({.history_periods = options.adapt_history_periods,
                 .forecast_periods = options.adapt_forecast_periods,
                 .floor_bytes = 0,
                 .ceiling_bytes = ceiling_bytes}),
      thread_(start_engine_thread("tm-adapt", [this] { run(); })) {}

BudgetAdapter::~BudgetAdapter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BudgetAdapter::run() {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, std::chrono::milliseconds(period_milliseconds_), [this] { return stop_; })) {
    lock.unlock();
    try {
      step();
    } catch (const std::exception&) {
      // Pinned pages in the way, or no memory to read /proc: the old budget stays, the next period tries again.
    }
    lock.lock();
  }
}

void BudgetAdapter::step() {
  const MachineMemory machine = read_machine_memory(root_);
  if (machine.total == 0) {
    return;
  }
  const Sample cache = hooks_.sample();
  forecast_.set_floor_bytes(cache.minimum_bytes);
  const auto budget = forecast_.decide({.budget_bytes = cache.budget_bytes,
                                        .used_bytes = cache.used_bytes,
                                        .faults = cache.faults,
                                        .usable_bytes = machine.usable_bytes(),
                                        .total_bytes = machine.most_bytes(),
                                        .pressure_percent = machine.pressure_some_avg10.value_or(0)});
  if (budget) {
    hooks_.set_budget(*budget);
  }
}

}  // namespace tiermap
