// Least recently used, as far as a pager can see: the page whose last fault lies furthest back goes. A fault is a fill,
// or a touch of a page that was unmapped but still in memory. If nothing were ever unmapped early, no use after the
// fill would be seen, and this would be FIFO; so half of the budget is kept unmapped, and the order of that half is
// true LRU.
#pragma once

#include "cache/policy/queue_policy.hpp"

namespace tiermap {

/// The share of unmapped pages trades soft faults for better knowledge: 50 % unless the options say otherwise.
class Lru final : public QueuePolicy {
 public:
  static constexpr std::uint32_t default_unmapped_share_percent = 50;
  explicit Lru(const PolicyOptions& options)
      : QueuePolicy(
            "lru", options.max_frames,
            options.unmapped_share_percent == 0 ? default_unmapped_share_percent : options.unmapped_share_percent) {}
};

}  // namespace tiermap
