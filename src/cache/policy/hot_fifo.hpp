// DI-MMAP's buffer (Van Essen et al., Cluster Computing 2013, section 2): pages enter a primary FIFO. One that is
// displaced from it and has been faulted more often than the average page in memory goes to a hot FIFO, any other to
// the eviction queue; what overflows the hot FIFO goes to the eviction queue too. A touch in the eviction queue puts
// the page back into the primary FIFO and adds one to its count. Counts outlive pages in a table of buckets: a page
// starts with its bucket's count; when it leaves, a higher count replaces the bucket's, and an equal one decays it by
// one.
#pragma once

#include "cache/policy/frame_list.hpp"
#include "platform/lazy_array.hpp"

namespace tiermap {

/// hot_share_percent is the most that the hot FIFO may hold, of the budget; 0 makes this segmented FIFO.
class HotFifo final : public EvictionPolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 25;
  explicit HotFifo(const PolicyOptions& options);

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
  std::string_view name() const override { return "hot-fifo"; }

 private:
  static constexpr Place primary_list = first_list;
  static constexpr Place hot_list = first_list + 1;
  static constexpr Place unmapped_list = first_list + 2;
  static constexpr Place refused_list = first_list + 3;  ///< Named only when nothing else is left.
  static constexpr std::uint16_t most_faults = 0xFFFF;
  /// Two to four a frame in use: at a store-to-memory ratio of 4, one or two pages share a bucket.
  static constexpr std::size_t buckets_per_frame = 2;

  struct FrameHistory {
    std::uint32_t bucket;
    std::uint16_t faults;
    bool in_hot_fifo;  ///< Where a refused page came from, and so goes back to.
  };

  FrameId next_victim();
  bool above_average(FrameId frame) const;
  void return_one_refused();

  std::uint32_t hot_share_percent_;
  std::uint32_t unmapped_share_percent_;
  std::uint64_t hot_limit_units_ = 0;
  std::uint64_t faults_of_residents_ = 0;
  FrameLists<4> frames_;
  LazyArray<FrameHistory> histories_;
  std::uint64_t most_resident_frames_ = 0;  ///< Rounded up to a power of two: buckets in use follow it.
  LazyArray<std::uint16_t> buckets_;        ///< Zero means one: the least count there is.
};

}  // namespace tiermap
