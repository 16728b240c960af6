// How many accesses a pattern makes, and how far they go.
#pragma once

#include <cstdint>

#include "tiermap/transaction.hpp"

namespace tiermap {

/// Throws OptionError for a range that leaves the vector, and for a stride or a range that cannot be.
std::uint64_t accesses_of(VectorStorage& vector, const Strided& pattern);
std::uint64_t accesses_of(VectorStorage& vector, const Random& pattern);
/// Behind the last element that it has, of a stride that is none of 0.
std::uint64_t end_of(const Strided& pattern) noexcept;

}  // namespace tiermap
