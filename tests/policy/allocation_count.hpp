// How often this program has asked for heap memory: the test program's operator new counts.
#pragma once

#include <cstdint>

namespace tiermap {

/// Calls of any operator new so far, in all threads.
std::uint64_t allocation_count() noexcept;

}  // namespace tiermap
