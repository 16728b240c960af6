// How many accesses a pattern makes.
#pragma once

#include <cstdint>

#include "tiermap/transaction.hpp"

namespace tiermap {

/// Throws OptionError for a range that leaves the vector, and for a stride or a range that cannot be.
std::uint64_t accesses_of(VectorStorage& vector, const Strided& pattern);
std::uint64_t accesses_of(VectorStorage& vector, const Random& pattern);

}  // namespace tiermap
