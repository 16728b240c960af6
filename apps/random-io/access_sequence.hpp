// Which block is touched when: by position, so that a run can be repeated, and checked afterwards, whatever its threads
// did in which order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tiermap {

/// One access. Blocks are counted from the start of the store.
struct BlockAccess {
  std::uint64_t block;
  bool write;
};

/// The blocks [first, first + count) of a store.
struct BlockRange {
  std::uint64_t first;
  std::uint64_t count;
};

/// The accesses of one process. at() is thread-safe.
class AccessSequence {
 public:
  virtual ~AccessSequence() = default;
  virtual std::uint64_t size() const noexcept = 0;
  /// Requires index < size().
  virtual BlockAccess at(std::uint64_t index) const noexcept = 0;
};

/// What generated sequences have in common.
struct SequenceOptions {
  std::uint64_t seed = 1;
  std::uint64_t accesses = 0;
  std::uint32_t write_percent = 0;  ///< Which accesses write is random too.
};

/// Every block of the range once, in a random order; then once more in another one, and so on: the first `count`
/// accesses meet no block twice.
std::unique_ptr<AccessSequence> uniform_sequence(BlockRange range, const SequenceOptions& options);

/// The block of rank r comes with a probability in proportion to 1 / r^skew; ranks are scattered over the range. By
/// the approximation of Gray and others, "Quickly generating billion-record synthetic databases" (SIGMOD 1994), which
/// YCSB uses too. `skew` is above 0 and under 1.
std::unique_ptr<AccessSequence> zipfian_sequence(BlockRange range, double skew, const SequenceOptions& options);

/// What is in the file, a line each: `r` or `w`, a space, the number of the block. Lines that begin with `#` count for
/// nothing. Throws OptionError that names the line if one is something else or names a block from `blocks` on, and as
/// TextInput does.
std::vector<BlockAccess> read_trace(const std::string& path, std::uint64_t blocks);

/// Of those accesses the ones to blocks of the range, in their order.
std::unique_ptr<AccessSequence> recorded_sequence(BlockRange range, const std::vector<BlockAccess>& trace);

}  // namespace tiermap
