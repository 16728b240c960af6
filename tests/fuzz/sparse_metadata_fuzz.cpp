// Whatever a sparse store's metadata file holds, it is refused with a StoreError or means values that can be, and then
// encoding them gives the same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <xxhash.h>

#include "store/sparse_metadata.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void decode(std::span<const std::byte> bytes) {
  try {
    const tiermap::SparseMetadata metadata = tiermap::decode_sparse_metadata(bytes, "metadata");
    require(metadata.size_bytes <= metadata.capacity_bytes && metadata.segment_bytes >= 4096);
    const auto again = tiermap::encode_sparse_metadata(metadata);
    require(bytes.size() == again.size() && std::memcmp(again.data(), bytes.data(), again.size()) == 0);
  } catch (const tiermap::StoreError& error) {
    require(std::strchr(error.what(), '\n') == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  decode(bytes);
  // Once more with the checksum put right, which no chance would find.
  if (size == tiermap::sparse_metadata_bytes) {
    std::array<std::byte, tiermap::sparse_metadata_bytes> repaired;
    std::memcpy(repaired.data(), data, size);
    const std::uint64_t checksum = XXH3_64bits(repaired.data(), 56);
    for (unsigned index = 0; index < 8; ++index) {
      repaired[56 + index] = static_cast<std::byte>(checksum >> (8 * index) & 0xff);
    }
    decode(repaired);
  }
  return 0;
}
