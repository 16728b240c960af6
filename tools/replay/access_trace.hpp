// Which page is touched next, one number a touch. Touches of the page that was touched just before are left out, as no
// policy could gain or lose by them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/eviction_policy.hpp"

namespace tiermap::simulation {

struct Trace {
  /// Set in a touch that is none: the page has been discarded.
  static constexpr std::uint32_t discarded_bit = std::uint32_t{1} << 31U;

  std::string name;
  std::vector<std::uint32_t> touches;  ///< Page numbers, dense from 0.
  std::uint32_t pages = 0;             ///< One more than the largest page number.
  std::vector<PageKey> keys = {};      ///< What a policy knows a page by; empty: by its number.

  /// Requires a page below discarded_bit.
  void touch(std::uint64_t page) {
    if (touches.empty() || touches.back() != page) {
      touches.push_back(static_cast<std::uint32_t>(page));
      pages = std::max(pages, static_cast<std::uint32_t>(page) + 1);
    }
  }
  /// Requires a page that was touched.
  void discard(std::uint32_t page) { touches.push_back(page | discarded_bit); }
  PageKey key(std::uint32_t page) const { return keys.empty() ? PageKey{0, page} : keys[page]; }
  std::uint64_t accesses() const {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(touches, [](std::uint32_t touch) { return (touch & discarded_bit) == 0; }));
  }
};

}  // namespace tiermap::simulation
