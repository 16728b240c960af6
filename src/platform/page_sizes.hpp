// The kernel's page sizes, and rounding up to them or to anything else.
#pragma once

#include <cstdint>

namespace tiermap {

inline constexpr std::uint64_t kernel_page_bytes = 4096;
inline constexpr std::uint64_t huge_page_bytes = std::uint64_t{2} << 20U;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) noexcept {
  return (value + unit - 1) / unit * unit;
}

}  // namespace tiermap
