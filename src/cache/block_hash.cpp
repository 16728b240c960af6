#include "cache/block_hash.hpp"

#include <xxhash.h>

#include <algorithm>

namespace tiermap {
namespace {

// A fixed odd constant: the checksum guards against accidents, and is never stored.
constexpr XXH64_hash_t seed = 0x9E3779B97F4A7C15ULL;

}  // namespace

BlockHash hash_block(const void* data, std::uint64_t bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, seed);
  return {hash.low64, hash.high64};
}

void hash_blocks(const void* data, std::uint64_t bytes, BlockHash* hashes) noexcept {
  const auto* first = static_cast<const std::byte*>(data);
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    *hashes++ = hash_block(first + offset, std::min(block_bytes, bytes - offset));
  }
}

bool blocks_differ(const void* data, std::uint64_t bytes, const BlockHash* hashes) noexcept {
  const auto* first = static_cast<const std::byte*>(data);
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    if (hash_block(first + offset, std::min(block_bytes, bytes - offset)) != *hashes++) {
      return true;
    }
  }
  return false;
}

}  // namespace tiermap
