// The checksum of a message's body: XXH3-64, in the widest registers that the processor has. It is a read of every byte
// on both sides, a tenth of the time of a read of 64 KiB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiermap {

std::uint64_t body_checksum(std::span<const std::byte> body, std::uint64_t seed) noexcept;

/// The same for processors with AVX2, of x86-64 only: reached through body_checksum(), which asks the processor.
std::uint64_t body_checksum_avx2(const std::byte* body, std::size_t bytes, std::uint64_t seed) noexcept;

}  // namespace tiermap
