// body_checksum() in registers of 256 bits, compiled for processors that have them (src/CMakeLists.txt) and chosen at
// run time. The checksum is the same. Nothing inline from elsewhere may be used here: the linker could keep this file's
// copy of it for everyone.
#if defined(__AVX2__)
#define XXH_INLINE_ALL
#include <immintrin.h>
#include <xxhash.h>

#include "cluster/wire/body_checksum.hpp"

namespace tiermap {

std::uint64_t body_checksum_avx2(const std::byte* body, std::size_t bytes, std::uint64_t seed) noexcept {
  const std::uint64_t checksum = XXH3_64bits_withSeed(body, bytes, seed);
  _mm256_zeroupper();  // As in cache/block_hash_avx2.cpp.
  return checksum;
}

}  // namespace tiermap
#endif
