// Brings blocks from one place to another.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>

#include "tier/tier_blocks.hpp"

namespace tiermap {

/// The memory that a block goes through on its way, aligned for direct I/O.
class BlockBuffer {
 public:
  explicit BlockBuffer(std::uint64_t bytes);
  char* data() const noexcept { return memory_.get(); }

 private:
  struct Release {
    void operator()(char* memory) const noexcept;
  };
  std::unique_ptr<char[], Release> memory_;
};

/// Thread-safe. Functions that take an ownership return 0 or a negative errno value, and leave the block where it was
/// if that failed.
class BlockMover {
 public:
  using Warn = std::function<void(const std::string&)>;
  BlockMover(TierBlocks& blocks, std::shared_ptr<Store> backing, std::uint64_t block_bytes, Warn warn);

  std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  /// Of the store, or what that was before somebody else cut it off: what is written there makes it as long again.
  std::uint64_t end() const noexcept;
  /// How many bytes of the block come before that.
  std::uint64_t bytes_in(std::uint64_t block) const noexcept;
  /// Whether the store is a file from which somebody else has cut all that is from `offset` on.
  bool is_cut_off(std::uint64_t offset) const noexcept;
  /// The same of a block's last page.
  bool lacks_its_end(std::uint64_t block) const noexcept;
  /// As many as the backing store has now.
  std::uint64_t blocks_in_all() const noexcept;

  /// The block's bytes, wherever they are, with zeros behind the store's end.
  int read_block(const BlockOwnership& owned, BlockBuffer& buffer);
  /// Into the fastest tier that takes it, from `tier` on: what is dirty only into one that holds changes. -ENOSPC if
  /// none does, -EAGAIN where BlockOwnership::settle_in() does not take it.
  int put_in_tier(BlockOwnership& owned, TierNumber tier, const BlockBuffer& buffer, bool dirty);
  /// From where it is to a tier, or to the backing store.
  int move(BlockOwnership& owned, TierNumber to);
  /// Makes the backing store as new as it is.
  int write_down(BlockOwnership& owned);

  /// Says that the tier failed, and why, if it did not before; nothing new comes into it. One that has no room for more
  /// keeps what it has, and takes so much. `outcome` is the end of the line.
  void fail(TierNumber tier, int error, const char* outcome = "nothing is lost");
  /// Writes to each tier that failed or was full so long ago, reads it again, and says so if one that failed takes
  /// blocks again.
  void try_failed(double retry_seconds);

  /// The backing store, as whole transfers: what a read has fewer is zeros.
  int read_backing(std::uint64_t offset, char* buffer, std::uint64_t bytes) noexcept;
  int write_backing(std::uint64_t offset, const char* buffer, std::uint64_t bytes) noexcept;
  /// Makes it longer. 0 or a negative errno value.
  int lengthen(std::uint64_t bytes) noexcept;
  /// Shorter or longer; nothing is written down meanwhile.
  int resize(std::uint64_t bytes) noexcept;
  /// As it was of late, or as it was said to be.
  double backing_microseconds(std::uint64_t bytes) const noexcept;
  void expect_backing(double bytes_per_second, double latency_microseconds) noexcept;

 private:
  void tell_full(TierNumber tier, int error);

  TierBlocks& blocks_;
  const std::shared_ptr<Store> backing_;
  const std::uint64_t block_bytes_;
  const Warn warn_;
  /// Exclusive: the length changes. Shared: something is written into what there is, so that nothing that is on its way
  /// down makes the store longer again.
  std::shared_mutex length_mutex_;
  std::atomic<std::uint64_t> end_;             ///< Of the store, as it was left here; more than that may be there.
  std::atomic<double> nanoseconds_a_read_{0};  ///< Of a block.
};

}  // namespace tiermap
