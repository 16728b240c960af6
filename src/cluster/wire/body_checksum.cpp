#include "cluster/wire/body_checksum.hpp"

#include <xxhash.h>

#include "platform/processor.hpp"

namespace tiermap {

std::uint64_t body_checksum(std::span<const std::byte> body, std::uint64_t seed) noexcept {
#if defined(__x86_64__)
  if (processor_has_avx2) {
    return body_checksum_avx2(body.data(), body.size(), seed);
  }
#endif
  return XXH3_64bits_withSeed(body.data(), body.size(), seed);
}

}  // namespace tiermap
