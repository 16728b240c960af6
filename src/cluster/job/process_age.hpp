// How long this process has been running.
#pragma once

#include <chrono>

namespace tiermap {

/// Never more than it is: 0 where the kernel does not say.
std::chrono::milliseconds process_age() noexcept;

}  // namespace tiermap
