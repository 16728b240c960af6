// When a process was started.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

namespace tiermap {

/// When the process started, in clock ticks since boot; nothing if there is no such process.
std::optional<std::uint64_t> process_start_time(pid_t process);

}  // namespace tiermap
