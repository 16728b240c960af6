// The reaction: u is fed, v is killed, two v and a u become three v; both spread by diffusion.
#pragma once

#include <cstdint>

namespace tiermap {

/// Rates a unit of time; cells are 1 apart.
struct Reaction {
  double feed = 0.025;
  double kill = 0.055;
  double diffusion_u = 0.08;
  double diffusion_v = 0.04;
  double time_step = 1;
};

/// The sums of a species over cells.
struct SpeciesSums {
  double u = 0;
  double v = 0;
  void add(const SpeciesSums& other) {
    u += other.u;
    v += other.v;
  }
};

/// Where the old values are that a row of one species needs: its own, and those of the four rows around it.
template <typename T>
struct RowStencil {
  const T* here;
  const T* before;  ///< In the same plane.
  const T* after;
  const T* below;  ///< In the planes beside it.
  const T* above;
};

/// One step of a row of `cells` cells, the last one beside the first: new values, and their sums, which are the same
/// whoever calls it.
template <typename T>
SpeciesSums step_row(const RowStencil<T>& u, const RowStencil<T>& v, std::uint64_t cells, const Reaction& reaction,
                     T* new_u, T* new_v);

}  // namespace tiermap
