// One checksum for all that is written: XXH3, which goes through memory as fast as it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiermap {

/// Of the bytes, and of `seed`: what belongs elsewhere does not match.
std::uint64_t checksum_of(std::span<const std::byte> bytes, std::uint64_t seed) noexcept;

}  // namespace tiermap
