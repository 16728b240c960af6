// Which parts of a store are holes, as far as its files can tell.
#pragma once

#include <cstdint>

#include "tiermap/store.hpp"

namespace tiermap {

/// The first piece of [begin, end) that may hold other bytes than zeros, or {end, end}. All of it where that cannot be
/// told.
struct DataRange {
  std::uint64_t begin;
  std::uint64_t end;
};
DataRange first_data(const Store& store, std::uint64_t begin, std::uint64_t end) noexcept;

}  // namespace tiermap
