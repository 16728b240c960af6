// What FIFO, LRU by fault and segmented FIFO share: one queue of mapped pages, and behind it one queue of pages that
// are unmapped but still in memory. They differ in how large the second queue is, and so in how many hits they get to
// see.
#pragma once

#include <string_view>

#include "cache/eviction_policy.hpp"
#include "cache/policy/frame_list.hpp"

namespace tiermap {

class QueuePolicy : public EvictionPolicy {
 public:
  void capacity_changed(std::uint64_t /*capacity_units*/) override {}
  void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) override;
  void rescued(FrameId frame) override;
  void removed(FrameId frame, bool evicted) override;
  void advised(FrameId frame, Hotness hotness) override;
  std::size_t choose_to_unmap(std::span<FrameId> victims) override;
  void unmapped(FrameId frame) override;
  void refused(FrameId frame) override;
  FrameId choose_to_free() override;
  std::uint32_t unmapped_share_percent() const override { return unmapped_share_percent_; }
  std::string_view name() const override { return name_; }

 protected:
  /// `name` must live for ever. The share is of the budget, in percent.
  QueuePolicy(std::string_view name, FrameId max_frames, std::uint32_t unmapped_share_percent);

 private:
  static constexpr Place mapped_list = first_list;
  static constexpr Place unmapped_list = first_list + 1;

  std::string_view name_;
  std::uint32_t unmapped_share_percent_;
  FrameLists<2> frames_;
};

}  // namespace tiermap
