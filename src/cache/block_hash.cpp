#include "cache/block_hash.hpp"

#include <xxhash.h>

#include <algorithm>

#include "platform/processor.hpp"

namespace tiermap {

BlockHash hash_block(const void* data, std::uint64_t bytes) noexcept {
#if defined(__x86_64__)
  if (processor_has_avx2) {
    return hash_block_avx2(data, bytes);
  }
#endif
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, block_hash_seed);
  return {hash.low64, hash.high64};
}

void hash_blocks(const void* data, std::uint64_t bytes, BlockHash* hashes) noexcept {
  const auto* first = static_cast<const std::byte*>(data);
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    *hashes++ = hash_block(first + offset, std::min(block_bytes, bytes - offset));
  }
}

std::uint64_t first_difference(const void* data, std::uint64_t bytes, const BlockHash* hashes) noexcept {
  const auto* first = static_cast<const std::byte*>(data);
  for (std::uint64_t offset = 0; offset < bytes; offset += block_bytes) {
    if (hash_block(first + offset, std::min(block_bytes, bytes - offset)) != *hashes++) {
      return offset;
    }
  }
  return bytes;
}

}  // namespace tiermap
