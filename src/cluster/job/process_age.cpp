#include "cluster/job/process_age.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <exception>

#include "platform/process_start.hpp"

namespace tiermap {
std::chrono::milliseconds process_age() noexcept {
  constexpr std::int64_t second = 1000;
  try {
    const auto ticks = static_cast<std::int64_t>(process_start_time(::getpid()).value_or(0));
    const std::int64_t ticks_a_second = ::sysconf(_SC_CLK_TCK);
    timespec now{};
    if (ticks == 0 || ticks_a_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
      return {};
    }
    // It began within the tick that follows.
    const std::int64_t began = (ticks + 1) * second / ticks_a_second + 1;
    return std::chrono::milliseconds(std::max<std::int64_t>(now.tv_sec * second + now.tv_nsec / 1'000'000 - began, 0));
  } catch (const std::exception&) {
    return {};
  }
}

}  // namespace tiermap
