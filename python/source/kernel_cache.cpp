#include "kernel_cache.hpp"

#include <algorithm>
#include <utility>

#include "config/resolve.hpp"
#include "platform/signals_blocked.hpp"

namespace tiermap::python {
namespace {

/// Fault mode kernel takes no less.
constexpr std::uint64_t least_budget_bytes = 1 << 20;

}  // namespace

KernelCache::KernelCache(std::uint64_t budget_bytes, std::optional<std::string> name)
    : budget_bytes_(std::max(budget_bytes, least_budget_bytes)), name_(std::move(name)) {}

bool KernelCache::can_be_made() {
  return resolve(CacheOptions()).trace_file.empty();
}

Cache& KernelCache::cache() {
  const SignalsBlocked quiet;
  const std::lock_guard held(mutex_);
  if (cache_ == nullptr) {
    CacheOptions options;
    options.budget_bytes = budget_bytes_;
    options.fault_mode = FaultMode::kernel;
    options.name = name_;
    cache_ = std::make_unique<Cache>(options);
  }
  return *cache_;
}

void KernelCache::set_budget_bytes(std::uint64_t bytes) {
  const SignalsBlocked quiet;
  const std::lock_guard held(mutex_);
  budget_bytes_ = std::max(bytes, least_budget_bytes);
  if (cache_ != nullptr) {
    cache_->set_budget_bytes(budget_bytes_);
  }
}

}  // namespace tiermap::python
