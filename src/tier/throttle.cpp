#include "tier/throttle.hpp"

#include <time.h>

#include <algorithm>
#include <cerrno>

#include "platform/clock.hpp"

namespace tiermap {

void Throttle::transfer(std::uint64_t bytes) noexcept {
  if (nanoseconds_a_byte_ == 0 && latency_nanoseconds_ == 0) {
    return;
  }
  std::uint64_t end = 0;
  {
    const std::lock_guard held(mutex_);
    free_from_ = std::max(free_from_, now_nanoseconds()) +
                 static_cast<std::uint64_t>(static_cast<double>(bytes) * nanoseconds_a_byte_);
    end = free_from_ + latency_nanoseconds_;
  }
  const timespec until{static_cast<time_t>(end / 1'000'000'000), static_cast<long>(end % 1'000'000'000)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) == EINTR) {
  }
}

}  // namespace tiermap
