// Time for measuring, not for telling. Safe in signal handlers.
#pragma once

#include <time.h>

#include <cstdint>

namespace tiermap {

inline std::uint64_t now_nanoseconds() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace tiermap
