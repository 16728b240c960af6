#include "store/hdf5/hyperslab.hpp"

#include <algorithm>

namespace tiermap {

Hyperslab first_hyperslab(std::span<const std::uint64_t> shape, std::uint64_t first, std::uint64_t most) {
  Hyperslab box;
  box.elements = 1;
  std::uint64_t rest = first;
  std::uint64_t inner = 1;  // Elements of one index of this dimension.
  bool whole = true;        // All inner dimensions are taken from beginning to end.
  for (std::size_t dimension = shape.size(); dimension-- > 0;) {
    const std::uint64_t extent = shape[dimension];
    const std::uint64_t index = rest % extent;
    rest /= extent;
    box.start[dimension] = index;
    box.count[dimension] = whole ? std::clamp<std::uint64_t>(most / inner, 1, extent - index) : 1;
    box.elements *= box.count[dimension];
    whole = whole && box.count[dimension] == extent;
    inner *= extent;
  }
  return box;
}

}  // namespace tiermap
