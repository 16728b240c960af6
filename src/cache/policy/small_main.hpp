// A small queue, an unmapped probation, a main queue and a memory of what was evicted: S3-FIFO's shape (Yang et al.,
// SOSP 2023) from faults alone. New pages enter the small queue. Leaving it they are unmapped, on probation: a touch
// there lifts them into the main queue, none lets them go, remembered. A page that comes back while it is remembered
// enters the main queue at once. The main queue's oldest pages pass through the same probation.
#pragma once

#include "cache/policy/frame_list.hpp"
#include "cache/policy/ghost_table.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

class SmallMain final : public EvictionPolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 25;
  static constexpr std::uint32_t small_share_percent = 10;  ///< S3-FIFO's; of the budget.
  explicit SmallMain(const PolicyOptions& options);

  void capacity_changed(std::uint64_t capacity_units) override;
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override;
  void rescued(FrameId frame) override;
  void removed(FrameId frame, bool evicted) override;
  void advised(FrameId frame, Hotness hotness) override;
  std::size_t choose_to_unmap(std::span<FrameId> victims) override;
  void unmapped(FrameId frame) override;
  void refused(FrameId frame) override;
  FrameId choose_to_free() override;
  std::uint32_t unmapped_share_percent() const override { return unmapped_share_percent_; }
  std::string_view name() const override { return "small-main"; }

 private:
  static constexpr Place small_list = first_list;
  static constexpr Place main_list = first_list + 1;
  static constexpr Place unmapped_list = first_list + 2;
  static constexpr Place refused_list = first_list + 3;  ///< Named only when nothing else is left.

  struct FramePage {
    std::uint64_t hash;
    bool in_main;  ///< Which queue the page belongs to, also while it is unmapped.
  };

  Place queue_of(FrameId frame) const { return pages_[frame].in_main ? main_list : small_list; }
  FrameId next_victim() const;
  void return_one_refused();

  std::uint32_t unmapped_share_percent_;
  std::uint64_t small_limit_units_ = 0;
  FrameLists<4> frames_;
  LazyArray<FramePage> pages_;
  std::uint64_t most_resident_frames_ = 0;  ///< Rounded up to a power of two.
  GhostTable ghosts_;
};

}  // namespace tiermap
