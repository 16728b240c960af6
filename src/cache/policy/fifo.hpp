// First in, first out: the page that was filled longest ago goes, whatever has happened to it since. The least work and
// the most misses of all policies where pages are used again; nothing is lost by it on a single pass.
#pragma once

#include "cache/policy/queue_policy.hpp"

namespace tiermap {

/// Keeps nothing unmapped, whatever the options say: FIFO with a share of unmapped pages is segmented-fifo. A page that
/// is touched in the short time between unmapping and freeing counts as filled anew.
class Fifo final : public QueuePolicy {
 public:
  explicit Fifo(const PolicyOptions& options) : QueuePolicy("fifo", options.max_frames, 0) {}
};

}  // namespace tiermap
