// Whether what was computed is right: what must hold of any state and of any step, and the same steps by plain loops.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "command_line/ranks.hpp"
#include "gray-scott/reaction.hpp"
#include "tiermap/store.hpp"
#include "tiermap/vector_storage.hpp"

namespace tiermap {

/// Reads a plane of each species.
template <typename T>
using PlaneReader = std::function<void(std::uint64_t z, T* u, T* v)>;

/// A state, in a few numbers.
struct Survey {
  SpeciesSums sums;
  double lowest = 0;  ///< Of both species.
  double highest_u = 0;
  std::uint64_t checksum = 0;  ///< Of all bits of all cells, and where they are.
};
/// By all ranks: each reads some planes, and gets to know what all of them come to.
template <typename T>
Survey survey(Ranks& ranks, std::uint64_t size, VectorRange planes, const PlaneReader<T>& read);

/// The same of some planes, to be put together with those of others: the sums of all are those of the planes, added up
/// in their order.
struct SlabSurvey {
  std::vector<SpeciesSums> plane_sums;
  double lowest = 0;
  double highest_u = 0;
  std::uint64_t checksum = 0;
};
template <typename T>
SlabSurvey survey_planes(std::uint64_t size, VectorRange planes, const PlaneReader<T>& read);
/// Of one that has all planes.
Survey whole_survey(const SlabSurvey& planes);

/// Of a checkpoint that is there.
template <typename T>
PlaneReader<T> checkpoint_reader(const std::string& path, std::uint64_t size);
/// Of a store with the cells of a Grid.
template <typename T>
PlaneReader<T> grid_reader(Store& store, std::uint64_t size);

/// What is wrong with a state, in one line; empty if nothing is: there is as much of a species as 0 to 1.
std::string find_impossible(const Survey& survey);

/// What diffusion must not change: all that a step adds is what is fed, and all that it takes away is what is killed.
/// One line, or empty.
std::string find_imbalance(const SpeciesSums& before, const SpeciesSums& after, const Reaction& reaction,
                           std::uint64_t cells, bool doubles, std::uint64_t step);

/// So many steps from a state, by plain loops over arrays in memory: four of size^3 cells. The largest difference of a
/// cell from the one that `result` reads.
template <typename T>
double difference_from_plain_loops(std::uint64_t size, std::uint64_t steps, const Reaction& reaction,
                                   const PlaneReader<T>& start, const PlaneReader<T>& result);

}  // namespace tiermap
