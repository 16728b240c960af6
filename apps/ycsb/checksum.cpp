#include "ycsb/checksum.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tiermap {

std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

}  // namespace tiermap
