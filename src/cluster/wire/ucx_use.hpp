// Whether this process may open UCX.
#pragma once

namespace tiermap {

/// Held by whoever has UCX open. While anybody has, UCX has a thread of its own, and in the child of a fork() it takes
/// that thread for one that it has: nobody would ever come through to a peer there.
class UcxUse {
 public:
  /// Throws StoreError in a process that was forked from one which had UCX open then.
  UcxUse();
  ~UcxUse();
  UcxUse(const UcxUse&) = delete;
  UcxUse& operator=(const UcxUse&) = delete;
};

}  // namespace tiermap
