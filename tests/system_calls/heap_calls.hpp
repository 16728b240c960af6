// How often the engine's threads have used the heap: the test program's operators new and delete count.
#pragma once

#include <cstdint>

namespace tiermap {

/// False under sanitizers, which have a heap of their own; nothing is counted then.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool heap_is_the_systems = false;
#else
inline constexpr bool heap_is_the_systems = true;
#endif

/// Starts counting from 0, or stops.
void watch_heap_calls(bool on) noexcept;
/// Calls of new and delete in threads whose names begin with "tiermap-", while watched.
std::uint64_t heap_calls_of_engine() noexcept;

}  // namespace tiermap
