// The engine proper, put together: frames, policy, pager, threads, and the regions they serve.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "fault/evictors.hpp"
#include "fault/fillers.hpp"
#include "fault/notify_engine.hpp"
#include "fault/pager.hpp"
#include "fault/region_index.hpp"
#include "fault/self_serving_engine.hpp"
#include "fault/writers.hpp"
#include "observe/publication.hpp"
#include "observe/trace_recorder.hpp"
#include "region/engine.hpp"

namespace tiermap {

class BudgetAdapter;
class PagedRegionImplementation;

class UserfaultfdEngine final : public Engine {
 public:
  UserfaultfdEngine(const ResolvedCacheOptions& options, FaultMode mode, std::string reason,
                    std::uint64_t kernel_features);
  ~UserfaultfdEngine() override;

  std::shared_ptr<RegionImplementation> map(std::shared_ptr<Store> store, const RegionOptions& options,
                                            const ResolvedRegionOptions& resolved) override;
  void check_room(const RegionOptions& options, const ResolvedRegionOptions& resolved) const override;
  std::uint64_t budget_bytes() const noexcept override { return frames_.budget_bytes(); }
  void set_budget_bytes(std::uint64_t bytes) override;
  std::uint64_t minimum_budget_bytes() const noexcept override;
  Statistics statistics() const override;
  void hold(MemoryPromise promise) override;

 private:
  friend class PagedRegionImplementation;

  static constexpr std::uint64_t least_frames = 4;  ///< One instruction can touch two pages with each of two operands.

  /// Whether small pages are cheap enough for regions whose page size follows the access.
  bool chooses_page_sizes() const noexcept { return move_ && options_.placement == Placement::automatic; }
  std::uint64_t minimum_for(std::uint64_t page_bytes, bool copies) const noexcept;
  /// Room in the budget for pages that a pin() at work is about to pin.
  class PinPromise {
   public:
    /// `cost` is what the pages of a range of `range_bytes` cost of the budget. Throws Error with ENOMEM if it cannot
    /// hold so much more for good.
    PinPromise(UserfaultfdEngine& engine, std::uint64_t cost, std::uint64_t range_bytes);
    ~PinPromise() { engine_.promised_bytes_.fetch_sub(bytes_); }
    PinPromise(const PinPromise&) = delete;
    PinPromise& operator=(const PinPromise&) = delete;
    /// A page is pinned, and counted as such.
    void keep(std::uint64_t bytes) noexcept {
      engine_.promised_bytes_.fetch_sub(bytes);
      bytes_ -= bytes;
    }

   private:
    UserfaultfdEngine& engine_;
    std::uint64_t bytes_;
  };
  void check_budget(std::uint64_t page_bytes) const;
  FrameArena& arena_for(std::uint64_t page_bytes, unsigned shard);
  std::shared_ptr<StoreTraffic> traffic_of(const std::shared_ptr<Store>& store);
  void attach(PagedRegionImplementation& region);
  void detach(PagedRegionImplementation& region);

  // In the order in which they lean on each other: destroyed in reverse.
  ResolvedCacheOptions options_;
  bool move_;
  Publication publication_;
  std::vector<Userfaultfd> userfaultfds_;
  FramePool frames_;
  MemoryPromise memory_;  ///< Of the budget; guarded by budget_mutex_.
  std::unique_ptr<EvictionPolicy> policy_;
  std::unique_ptr<TraceRecorder> recorder_;  ///< Null where nothing is recorded.
  Pager pager_;
  RegionIndex index_;
  /// One change at a time of what the budget has to hold: the budget itself, the regions, promises to pin. Taken before
  /// regions_mutex_, and held while a shrinking budget waits for the evictors.
  std::mutex budget_mutex_;
  mutable std::mutex regions_mutex_;  ///< Guards the next three.
  std::vector<PagedRegionImplementation*> regions_;
  std::uint32_t next_region_id_ = 1;
  unsigned next_shard_ = 0;
  std::atomic<std::uint64_t> pinned_bytes_{0};    ///< Of pages that are pinned.
  std::atomic<std::uint64_t> promised_bytes_{0};  ///< Of pages that a pin() at work is about to pin.
  Fillers fillers_;
  Evictors evictors_;
  Writers writers_;
  std::optional<SelfServingEngine> self_serving_;
  std::optional<NotifyEngine> notify_;
  std::unique_ptr<BudgetAdapter> adapter_;
};

}  // namespace tiermap
