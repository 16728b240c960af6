// Which page to give up. A policy sees only what a user-space pager can see: pages being filled (a miss), pages touched
// while they were unmapped but still in their frame (a hit seen), and pages leaving. It never sees a hit on a mapped
// page.
//
// A frame's life, as a policy is told of it:
//
//   filled() -> mapped -choose_to_unmap()-> named -unmapped()-> unmapped -choose_to_free()-> named -removed()-> gone
//                  ^  ^                          |                      |                              |
//                  |  +-------refused()----------+                      |                              |
//                  +----------------------rescued()---------------------+------------------------------+
//
// A frame that was named is in no list of the policy's until the next call about it. removed() may come in any state.
//
// All calls are made under the cache's policy lock, some from a signal handler: no call may allocate, block, lock or
// throw. Arrays a policy needs are made in its constructor (LazyArray costs memory only where it is touched).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace tiermap {

/// Names a frame; dense from 0 to max_frames - 1.
using FrameId = std::uint32_t;
inline constexpr FrameId no_frame = ~FrameId{0};

/// Names a page: which region (unique in its cache, never used again) and which page of it.
struct PageKey {
  std::uint32_t region = 0;
  std::uint64_t page = 0;
  bool operator==(const PageKey&) const = default;
};

enum class FillKind : std::uint8_t { fault, prefetch };
enum class Hotness : std::uint8_t { cold, hot };

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  /// The budget, in units of 4 KiB, at the start and whenever it changes.
  virtual void capacity_changed(std::uint64_t capacity_units) = 0;
  /// The page `key` was filled into `frame`, which holds `units` of 4 KiB.
  virtual void filled(FrameId frame, PageKey key, std::uint32_t units, FillKind kind) = 0;
  /// A page that was unmapped (or named to be freed) was touched and is mapped again.
  virtual void rescued(FrameId frame) = 0;
  /// The frame has been given up: by eviction, or because its region goes or discards it.
  virtual void removed(FrameId frame, bool evicted) = 0;
  /// The program says that the frame's page will be used soon, or not.
  virtual void advised(FrameId frame, Hotness hotness) = 0;
  /// Names mapped frames to unmap, best victim first; returns how many.
  virtual std::size_t choose_to_unmap(std::span<FrameId> victims) = 0;
  /// The frame that was named has been unmapped and is clean.
  virtual void unmapped(FrameId frame) = 0;
  /// The frame that was named cannot go now (pinned, busy, not writable); it counts as mapped, and is not named again
  /// soon.
  virtual void refused(FrameId frame) = 0;
  /// Names the unmapped frame to give up first, or no_frame.
  virtual FrameId choose_to_free() = 0;
  /// Share of the budget, in percent, that this policy wants unmapped but resident; the evictors keep to it.
  virtual std::uint32_t unmapped_share_percent() const = 0;
  virtual std::string_view name() const = 0;
};

struct PolicyOptions {
  FrameId max_frames = 0;                    ///< Frame names are below this.
  std::uint64_t capacity_units = 0;          ///< The budget in units of 4 KiB.
  std::uint32_t hot_share_percent = 25;      ///< hot-fifo only.
  std::uint32_t unmapped_share_percent = 0;  ///< 0: the policy's own default.
};

/// Makes a policy by name (fifo, lru, hot-fifo, segmented-fifo, small-main, cyclic). Throws OptionError that lists the
/// names.
std::unique_ptr<EvictionPolicy> make_eviction_policy(std::string_view name, const PolicyOptions& options);

}  // namespace tiermap
