// Which slots of a journal are free: runs of neighbours, the lowest given out first, so that the file can be cut behind
// the last one in use.
#pragma once

#include <cstdint>
#include <map>

namespace tiermap {

/// Neighbouring slots.
struct SlotRun {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// Not thread-safe: CheckpointedStore has a mutex for it. Slots at or past end() are free too, and have never been
/// given out since the last cut.
class SlotSpace {
 public:
  /// At least one and at most `most` neighbouring slots, or none (count 0) when all `limit` slots are in use.
  SlotRun take(std::uint32_t most, std::uint32_t limit);

  /// Gives slots back.
  void give(SlotRun run);

  /// Marks slots as in use that a journal found on disk says are. False if one of them is already.
  bool claim(std::uint32_t slot);

  /// Where the slots in use end, at most: whatever lies behind may be cut off the file.
  std::uint32_t end() const noexcept { return end_; }
  std::uint64_t in_use() const noexcept { return in_use_; }

 private:
  std::map<std::uint32_t, std::uint32_t> free_;  ///< First slot and count of each run below end_; none touch.
  std::uint32_t end_ = 0;
  std::uint64_t in_use_ = 0;
};

}  // namespace tiermap
