// What is to be made where nothing is there.
#pragma once

#include <cstdint>
#include <functional>

#include "tiermap/store.hpp"

namespace tiermap {

struct NewStore {
  std::uint64_t bytes = 0;
  /// Told what elements there will be, where the format says, before anything is made: what it throws is all that
  /// happens then. May be empty.
  std::function<void(const ElementLayout&)> check;

  void check_elements(const ElementLayout& elements) const {
    if (check) {
      check(elements);
    }
  }
};

}  // namespace tiermap
