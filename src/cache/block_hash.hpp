// Which 4 KiB blocks of a page differ from what the store holds, told by a strong checksum taken when the page was
// filled.
//
// XXH3-128: two different blocks look equal with a chance of 2^-128, far under that of the
// memory itself flipping the same bits. It costs a read of the block at memory speed; a write-protection fault for each
// block costs some 2 us and would come on the path of every first write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cache/frame_pool.hpp"

namespace tiermap {

/// Hashes `bytes` (rounded up to whole blocks by zeros never being read: the last block may be short) from `data`.
void hash_blocks(const void* data, std::uint64_t bytes, BlockHash* hashes) noexcept;

/// Where the first block is that differs from its hash; `bytes` if none does.
std::uint64_t first_difference(const void* data, std::uint64_t bytes, const BlockHash* hashes) noexcept;
/// Whether any block differs from its hash.
inline bool blocks_differ(const void* data, std::uint64_t bytes, const BlockHash* hashes) noexcept {
  return first_difference(data, bytes, hashes) != bytes;
}

/// Hashes one block.
BlockHash hash_block(const void* data, std::uint64_t bytes) noexcept;

/// The same for processors with AVX2, of x86-64 only: reached through hash_block(), which asks the processor.
BlockHash hash_block_avx2(const void* data, std::uint64_t bytes) noexcept;
/// A fixed odd constant: the checksum guards against accidents, and is never stored.
inline constexpr std::uint64_t block_hash_seed = 0x9E3779B97F4A7C15ULL;

}  // namespace tiermap
