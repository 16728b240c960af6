// hash_block() in the registers of 256 bits that most x86-64 processors have: compiled for those alone
// (src/CMakeLists.txt), chosen at run time. The checksum is the same. Nothing inline from elsewhere may be used here:
// the linker could keep this file's copy of it for everyone.
#if defined(__AVX2__)
#define XXH_INLINE_ALL
#include <immintrin.h>
#include <xxhash.h>

#include "cache/block_hash.hpp"

namespace tiermap {

BlockHash hash_block_avx2(const void* data, std::uint64_t bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits_withSeed(data, bytes, block_hash_seed);
  // GCC 12 leaves it out behind xxHash's loops, and from there on every instruction of 128 bits in this thread, the
  // program's own, waits for the upper halves: three times as slow, measured.
  _mm256_zeroupper();
  return {hash.low64, hash.high64};
}

}  // namespace tiermap
#endif
