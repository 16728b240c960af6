// A store that remembers a checksum of each block and verifies what it reads by it: what a data set has at rest.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "platform/lazy_array.hpp"
#include "store/forwarding_store.hpp"

namespace tiermap {

/// Bytes that have one checksum. Stripes are multiples of it.
inline constexpr std::uint64_t checked_block_bytes = 4096;

/// What a block is found to be that is not what was written. No file system error of a data set's store is this one.
inline constexpr int damaged_error = 117;  // EUCLEAN: "structure needs cleaning".

/// Over a store that is made for it, or that nobody else writes while this lives. Thread-safe as stores are; and writes
/// of disjoint parts of a block, and reads of others of its parts, may come at once.
///
/// read() of a damaged block, and write() of a part of one, fail with -damaged_error; a write of the whole block makes
/// it good. A write that fails otherwise leaves blocks as the store left them.
class CheckedStore final : public ForwardingStore {
 public:
  /// What is known of blocks that were never written here.
  enum class Before : std::uint8_t {
    zeros,    ///< They are zeros.
    unknown,  ///< Whatever they are when they are first read.
  };
  CheckedStore(std::shared_ptr<Store> base, Before before);

  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  bool locate_read(std::uint64_t, std::uint64_t, Extent&) const noexcept override { return false; }
  bool locate_write(std::uint64_t, std::uint64_t, Extent&) noexcept override { return false; }
  bool reads_in_signal_handler() const override { return false; }

  /// Puts back what a copy has of one damaged block, as long as the block is or as long as all of it: only what has the
  /// checksum that is remembered is taken, so that nothing else than what was written can come of it. Returns 0, also
  /// if the block is not damaged; -EAGAIN for other bytes than those; or a negative errno value.
  int mend(std::uint64_t offset, std::span<const std::byte> content);

  /// The block that was found damaged last.
  std::uint64_t last_damaged() const noexcept { return last_damaged_.load(std::memory_order_relaxed); }
  std::uint64_t damaged() const noexcept { return damaged_.load(std::memory_order_relaxed); }
  std::uint64_t mended() const noexcept { return mended_.load(std::memory_order_relaxed); }

 private:
  using Block = std::array<std::byte, checked_block_bytes>;
  /// Of writers, one for each 256 KiB in turn.
  static constexpr std::uint64_t turns = 64;
  static constexpr std::uint64_t turn_blocks = 64;
  class Turns;

  std::uint64_t checksum(const std::byte* block) const noexcept;
  /// Of the `bytes` first bytes of a block, the rest zeros.
  std::uint64_t checksum(std::span<const std::byte> bytes) const noexcept;
  bool known(std::uint64_t entry) const noexcept { return before_ == Before::zeros || entry != 0; }
  void remember(std::uint64_t block, std::uint64_t checksum) noexcept;
  /// Whether the content is what is remembered of the block.
  bool matches(std::uint64_t block, std::span<const std::byte> content) const noexcept;
  bool all_match(std::uint64_t first, std::span<const std::byte> content) const noexcept;
  int read_whole(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got);
  int write_whole(std::uint64_t offset, std::span<const std::byte> content, std::size_t& put);
  int read_verified_locked(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got);
  int read_blocks(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got);
  int read_part(std::uint64_t offset, std::span<std::byte> buffer, std::size_t& got);
  int take_edge(std::uint64_t block, const std::byte* content, std::uint64_t begin, std::uint64_t end, Block& whole);
  void remember_as_found(std::uint64_t first, std::uint64_t last) noexcept;
  int write_locked(std::span<const std::byte> content, std::uint64_t offset, std::size_t& put);
  int lengthen(std::uint64_t bytes);
  int resize_locked(std::uint64_t bytes);
  void make_room(std::uint64_t bytes);

  const Before before_;
  const std::uint64_t seed_;
  const std::uint64_t zeros_;         ///< A block of zeros' checksum.
  mutable std::shared_mutex sizing_;  ///< Alone for who changes the size; guards where entries_ lie.
  /// Checksums, of `Before::zeros` exclusive-or'ed with that of zeros, so that what was never touched costs nothing.
  LazyArray<std::atomic<std::uint64_t>> entries_;
  std::array<std::mutex, turns> turns_;
  std::atomic<std::uint64_t> last_damaged_{0};
  std::atomic<std::uint64_t> damaged_{0};
  std::atomic<std::uint64_t> mended_{0};
};

}  // namespace tiermap
