// What one access does: a load, a load and a store, or the same by direct I/O.
//
// Of each block one word tells which block it is, and the next counts its writes: so every read is checked where it
// happens, and afterwards not one write may be missing.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "command_line/backing.hpp"
#include "random-io/access_sequence.hpp"

namespace tiermap {

inline constexpr std::uint64_t least_block_bytes = 4096;
/// The words of a block that are looked at.
inline constexpr std::uint64_t name_word = 0;
inline constexpr std::uint64_t count_word = 1;

/// What the block's first word is.
std::uint64_t block_name(std::uint64_t seed, std::uint64_t block) noexcept;

/// Where accesses go. access() is thread-safe.
class BlockTarget {
 public:
  virtual ~BlockTarget() = default;
  /// False if the block is not the one that it should be. `thread` is below the number of threads.
  virtual bool access(BlockAccess access, std::uint32_t thread) = 0;
};

/// Mapped memory: a load of one word, and for a write an addition to the next.
std::unique_ptr<BlockTarget> mapped_target(std::span<std::uint64_t> words, std::uint64_t block_bytes,
                                           std::uint64_t seed);

/// A file, read and written past the page cache, a block at a time. A write reads the block first: that is what a store
/// to mapped memory asks of any system. Throws StoreError if the file cannot be opened so.
std::unique_ptr<BlockTarget> direct_target(const std::string& path, std::uint64_t block_bytes, std::uint64_t seed,
                                           std::uint32_t threads);

}  // namespace tiermap
