// Segmented FIFO: pages pass through a queue in which they are mapped, then through one in which they are unmapped but
// still in memory. A touch in the second queue costs a soft fault, no I/O, and puts the page at the young end of the
// first. With a quarter of the budget in the second queue, most of what LRU would keep is kept.
#pragma once

#include "cache/policy/queue_policy.hpp"

namespace tiermap {

/// The share of the second queue is 25 % of the budget unless the options say otherwise.
class SegmentedFifo final : public QueuePolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 25;
  explicit SegmentedFifo(const PolicyOptions& options)
      : QueuePolicy(
            "segmented-fifo", options.max_frames,
            options.unmapped_share_percent == 0 ? default_unmapped_share_percent : options.unmapped_share_percent) {}
};

}  // namespace tiermap
