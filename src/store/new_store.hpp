// What is to be made where nothing is there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "tiermap/store.hpp"

namespace tiermap {

struct NewStore {
  /// How many bytes are asked for, which may be none; without, nobody has said, and a store that can tells itself.
  std::optional<std::uint64_t> asked_bytes;
  /// Told what elements there will be, where the format says, before anything is made: what it throws is all that
  /// happens then. May be empty.
  std::function<void(const ElementLayout&)> check;

  std::uint64_t bytes() const noexcept { return asked_bytes.value_or(0); }
  void check_elements(const ElementLayout& elements) const {
    if (check) {
      check(elements);
    }
  }
};

/// Of open_store()'s `create_bytes`, where 0 is what it has from who says nothing.
inline NewStore new_store(std::uint64_t create_bytes) {
  NewStore made;
  if (create_bytes != 0) {
    made.asked_bytes = create_bytes;
  }
  return made;
}

}  // namespace tiermap
