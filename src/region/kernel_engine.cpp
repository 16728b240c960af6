#include "region/kernel_engine.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "platform/memory_limits.hpp"
#include "region/kernel_region.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

ProcessActivity ProcessActivity::now() noexcept {
  ProcessActivity activity;
  rusage usage = {};
  if (::getrusage(RUSAGE_SELF, &usage) == 0) {
    activity.minor_faults = static_cast<std::uint64_t>(usage.ru_minflt);
    activity.major_faults = static_cast<std::uint64_t>(usage.ru_majflt);
  }
  try {
    std::ifstream file("/proc/self/io");
    std::string key;
    std::uint64_t value = 0;
    while (file >> key >> value) {
      if (key == "read_bytes:") {
        activity.read_bytes = value;
      }
    }
  } catch (...) {  // No memory for the stream: the number stays 0.
  }
  return activity;
}

KernelEngine::KernelEngine(const ResolvedCacheOptions& options, std::string reason)
    : Engine(FaultMode::kernel, std::move(reason)),
      publication_(options.name, "kernel", "kernel", options.publish_statistics),
      began_(ProcessActivity::now()),
      budget_(options.budget_bytes, options.high_watermark_percent, options.low_watermark_percent,
              publication_.cache_counters()) {
  if (options.adapt_budget) {
    BudgetAdapter::Hooks hooks;
    hooks.sample = [this] {
      return BudgetAdapter::Sample{.budget_bytes = budget_bytes(),
                                   .used_bytes = budget_.count_resident_bytes(),
                                   .faults = process_faults(),
                                   .minimum_bytes = minimum_budget_bytes()};
    };
    hooks.set_budget = [this](std::uint64_t bytes) { set_budget_bytes(bytes); };
    adapter_ = std::make_unique<BudgetAdapter>(options, read_machine_memory().most_bytes(), std::move(hooks));
  }
}

KernelEngine::~KernelEngine() = default;

void KernelEngine::check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const {
  if (options.manual_flush && options.access == Access::read_write && options.sharing == Sharing::shared) {
    throw OptionError(
        "manual_flush cannot be kept in fault mode kernel, where the kernel writes back when it likes: choose fault "
        "mode "
        "notify or self-serving, or sharing private_copy");
  }
  Engine::check_room(options, resolved);
}

void KernelEngine::check_new_store(const StoreUrl& url) const {
  refuse_new_store_unless_plain(url);
}

std::shared_ptr<RegionImplementation> KernelEngine::map(std::shared_ptr<Store> store, const RegionOptions& options,
                                                        const ResolvedRegionOptions& resolved) {
  check_room(options, resolved);
  auto engine = std::static_pointer_cast<KernelEngine>(shared_from_this());
  return std::make_shared<KernelRegion>(std::move(engine), std::move(store), options, resolved);
}

std::uint64_t KernelEngine::process_faults() const noexcept {
  const ProcessActivity now = ProcessActivity::now();
  return now.minor_faults + now.major_faults - began_.minor_faults - began_.major_faults;
}

Statistics KernelEngine::statistics() const {
  const std::uint64_t resident = budget_.count_resident_bytes();
  Statistics statistics = const_cast<Publication&>(publication_).cache_counters().snapshot();
  statistics.resident_bytes = resident;
  statistics.mapped_bytes = resident;
  statistics.budget_bytes = budget_bytes();
  const ProcessActivity now = ProcessActivity::now();
  const auto set = [&](Counter counter, std::uint64_t value) {
    statistics.counters[static_cast<std::size_t>(counter)] = value;
  };
  set(Counter::read_faults, now.minor_faults + now.major_faults - began_.minor_faults - began_.major_faults);
  set(Counter::fills, now.major_faults - began_.major_faults);
  set(Counter::read_bytes, now.read_bytes - std::min(now.read_bytes, began_.read_bytes));
  return statistics;
}

std::shared_ptr<Engine> make_kernel_engine(const ResolvedCacheOptions& options, std::string reason) {
  return std::make_shared<KernelEngine>(options, std::move(reason));
}

}  // namespace tiermap
