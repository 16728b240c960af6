// What a simulation begins with: u everywhere, and spots of v in it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace tiermap {

/// The same for the same seed, whatever the order in which planes are asked for.
class InitialState {
 public:
  InitialState(std::uint64_t size, std::uint64_t seed);
  /// size^2 cells of each.
  template <typename T>
  void fill_plane(std::uint64_t z, T* u, T* v) const;

 private:
  struct Spot {
    std::array<std::uint64_t, 3> corner;  ///< x, y, z.
    std::uint64_t edge;
  };
  const std::uint64_t size_;
  std::vector<Spot> spots_;
};

}  // namespace tiermap
