// Words are written and read by pieces.
#pragma once

#include <cstdint>

namespace tiermap {

inline constexpr std::uint64_t piece_bytes = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t piece_words = piece_bytes / sizeof(std::uint64_t);
/// Enough to keep a device busy. More would only take memory, beside a budget that may be all there is.
inline constexpr std::uint32_t most_buffers = 8;

}  // namespace tiermap
