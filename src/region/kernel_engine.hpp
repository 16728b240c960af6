// Fault mode kernel: plain mmap of plain files, kept near the budget. docs/how-to/kernel-mode.md says what differs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "observe/publication.hpp"
#include "region/budget_adapter.hpp"
#include "region/engine.hpp"
#include "region/kernel_budget.hpp"
#include "region/kernel_prefetch.hpp"

namespace tiermap {

/// What the kernel has counted for this process since some moment. Pages and faults of all of its memory.
struct ProcessActivity {
  std::uint64_t minor_faults = 0;
  std::uint64_t major_faults = 0;
  std::uint64_t read_bytes = 0;
  static ProcessActivity now() noexcept;
};

class KernelEngine final : public Engine {
 public:
  KernelEngine(const ResolvedCacheOptions& options, std::string reason);
  ~KernelEngine() override;

  std::shared_ptr<RegionImplementation> map(std::shared_ptr<Store> store, const RegionOptions& options,
                                            const ResolvedRegionOptions& resolved) override;
  void check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const override;
  void check_new_store(const StoreUrl& url) const override;
  std::uint64_t budget_bytes() const noexcept override { return budget_.budget_bytes(); }
  void set_budget_bytes(std::uint64_t bytes) override { budget_.set_budget_bytes(bytes); }
  std::uint64_t minimum_budget_bytes() const noexcept override { return budget_.minimum_budget_bytes(); }
  Statistics statistics() const override;

 private:
  friend class KernelRegion;

  std::uint64_t process_faults() const noexcept;

  Publication publication_;
  const ProcessActivity began_;
  mutable KernelBudget budget_;
  KernelPrefetch prefetch_;
  std::mutex pins_mutex_;  ///< Held while pages are pinned, so that pinned_bytes_ is what all regions have pinned.
  std::atomic<std::uint64_t> pinned_bytes_{0};
  std::unique_ptr<BudgetAdapter> adapter_;
};

}  // namespace tiermap
