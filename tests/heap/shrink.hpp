// The shortest part of a failing sequence that fails still, as far as leaving steps out finds it.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace tiermap {

/// `fails(steps)` is true for `steps`, and is asked of parts of it: halves first, single steps last, until none can be
/// left out or the time is over.
template <typename Step, typename Fails>
std::vector<Step> shrink(std::vector<Step> steps, Fails&& fails, std::chrono::seconds at_most) {
  const auto end = std::chrono::steady_clock::now() + at_most;
  for (std::size_t piece = (steps.size() + 1) / 2; piece > 0;) {
    bool shrunk = false;
    for (std::size_t first = 0; first < steps.size() && std::chrono::steady_clock::now() < end;) {
      std::vector<Step> part = steps;
      const std::size_t last = std::min(first + piece, steps.size());
      part.erase(part.begin() + static_cast<std::ptrdiff_t>(first), part.begin() + static_cast<std::ptrdiff_t>(last));
      if (fails(part)) {
        steps = std::move(part);
        shrunk = true;
      } else {
        first += piece;
      }
    }
    if (std::chrono::steady_clock::now() >= end) {
      break;
    }
    piece = piece == 1 && shrunk ? 1 : piece / 2;
  }
  return steps;
}

}  // namespace tiermap
