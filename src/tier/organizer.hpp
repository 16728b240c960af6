// The data organizer (MegaMmap, section III.D): looks at the blocks' scores now and then, and brings each to the tier
// that it is worth.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "tier/block_mover.hpp"

namespace tiermap {

struct BlockMove {
  std::uint64_t block = 0;
  TierNumber from = in_backing;
  TierNumber to = in_backing;
};

/// Where blocks of such scores belong: the highest in the fastest tier, as many as it has room for (`capacities`, the
/// fastest first), and so on; blocks in no tier stay there below `least_score`. A block that is in a faster tier than
/// one of nearly the same score stays. In the order of doing: what leaves first, from the slowest tier up; then what
/// comes nearer, the highest scores first.
std::vector<BlockMove> plan_moves(std::vector<ScoredBlock> blocks, const std::vector<std::uint64_t>& capacities,
                                  double least_score);

struct OrganizerOptions {
  double organize_seconds = 0.1;
  double write_down_seconds = 1;
  double retry_seconds = 30;  ///< 0: never.
};

/// A thread of its own, from construction to destruction. Errors of a move leave the block where it is, to be tried
/// again; those of the backing store reach the program when it asks for durability.
class Organizer {
 public:
  /// Calls `after_round`, which must not throw, each time it has looked.
  Organizer(TierBlocks& blocks, BlockMover& mover, const OrganizerOptions& options, std::function<void()> after_round);
  ~Organizer();
  Organizer(const Organizer&) = delete;
  Organizer& operator=(const Organizer&) = delete;

  /// There is something to do at once.
  void wake() noexcept;

 private:
  void run() noexcept;
  void await_next_round(double rest_seconds);
  double organize();
  void write_down_idle();
  bool make(const BlockMove& move);

  TierBlocks& blocks_;
  BlockMover& mover_;
  const OrganizerOptions options_;
  const std::function<void()> after_round_;
  std::mutex mutex_;
  std::condition_variable woken_;
  bool wake_ = false;  ///< Guarded by mutex_.
  std::atomic<bool> stop_{false};
  std::uint64_t refused_ = 0;                 ///< The block that the backing store did not take the last time.
  std::unordered_set<std::uint64_t> failed_;  ///< Blocks that could not be moved when they were to be the last time.
  std::thread thread_;
};

}  // namespace tiermap
