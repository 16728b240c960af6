#include "gray-scott/initial_state.hpp"

#include <algorithm>

#include "parallel/random.hpp"

namespace tiermap {

InitialState::InitialState(std::uint64_t size, std::uint64_t seed) : size_(size) {
  constexpr std::uint64_t cells_a_spot = 24;  // Along each edge.
  constexpr std::uint64_t most_a_row = 16;
  const std::uint64_t in_a_row = std::clamp(size / cells_a_spot, std::uint64_t{1}, most_a_row);
  for (std::uint64_t spot = 0; spot < in_a_row * in_a_row * in_a_row; ++spot) {
    const auto draw = [&](std::uint64_t which, std::uint64_t below) {
      return random_word(seed, 4 * spot + which) % below;
    };
    spots_.push_back({{draw(0, size), draw(1, size), draw(2, size)}, 4 + draw(3, 5)});
  }
}

template <typename T>
void InitialState::fill_plane(std::uint64_t z, T* u, T* v) const {
  std::fill_n(u, size_ * size_, T{1});
  std::fill_n(v, size_ * size_, T{0});
  for (const Spot& spot : spots_) {
    const auto [x, y, bottom] = spot.corner;
    if ((z + size_ - bottom) % size_ >= spot.edge) {
      continue;
    }
    for (std::uint64_t row = 0; row < spot.edge; ++row) {
      for (std::uint64_t column = 0; column < spot.edge; ++column) {
        const std::uint64_t cell = (y + row) % size_ * size_ + (x + column) % size_;
        u[cell] = T{0.5};
        v[cell] = T{0.25};
      }
    }
  }
}

template void InitialState::fill_plane(std::uint64_t, float*, float*) const;
template void InitialState::fill_plane(std::uint64_t, double*, double*) const;

}  // namespace tiermap
