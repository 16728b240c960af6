// Several steps in one pass over the grid, by several threads, in place.
//
// A plane of the next step can be made as soon as its neighbours are of the step before. So steps follow each other
// through the planes like the waves of a wavefront, four planes apart, and a pass over the grid, which is what costs
// where the grid is larger than memory, takes all of them along:
//
//   plane        0  1  2  3  4  5  6  7  8  9 10 11 12 ...
//   has steps    3  3  .  2  2  2  .  1  1  1  .  0  0        (.: is being made)
//
// Planes are around: below the first is the last. So that the last ones find below and above what they need, each step
// begins one plane further than the step before; what its first plane was is kept until its last one is made. What is
// made of a plane takes its place when the next plane is made, which needs the old one.
//
// Where the grid is of several ranks, what is beside the own planes comes from the others before each step, of which
// there is one to a pass.
//
// Each thread has its rows of every plane. All meet after each plane; no sum and no order depends on how many they are.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <exception>
#include <mutex>
#include <vector>

#include "gray-scott/checkpoint.hpp"
#include "gray-scott/grid.hpp"
#include "gray-scott/reaction.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

template <typename T>
class Wavefront {
 public:
  /// With room for so many steps at once: four planes of cells for each.
  Wavefront(Grid<T>& grid, const Reaction& reaction, ThreadTeam& team, ProgressDisplay& progress,
            std::uint32_t most_steps);

  std::uint32_t most_steps() const { return static_cast<std::uint32_t>(waves_.size()); }
  /// Makes so many steps, and returns what each of the planes comes to after the first step, then after the second one,
  /// and so on. The last step goes to the checkpoint as well, if there is one. By all ranks.
  std::vector<SpeciesSums> advance(std::uint32_t steps, CheckpointVectors<T>* checkpoint);

  /// How many steps a pass is to make: as many as have all their planes in a quarter of the budget, and as have tables
  /// that are small beside the grid.
  static std::uint32_t steps_for(std::uint64_t size, std::uint64_t budget_bytes);

 private:
  struct Rows {
    std::uint64_t first;
    std::uint64_t end;
  };
  /// What a step needs while it goes through the planes. A plane is one of both species, u first.
  struct Wave {
    std::vector<T> made;   ///< The plane before, until it takes its place.
    std::vector<T> first;  ///< The first one as it was.
    std::vector<SpeciesSums> row_sums[2];
    std::vector<SpeciesSums> plane_sums;
  };

  void work(std::uint32_t thread, std::uint32_t steps, CheckpointVectors<T>* checkpoint, std::barrier<>& meeting);
  void move_on(std::uint32_t wave, std::uint64_t position, Rows rows, CheckpointVectors<T>* checkpoint,
               std::vector<T>& made_row);
  void make_row(std::uint32_t wave, std::uint64_t position, std::uint64_t y, std::vector<T>& made_row);
  void settle_row(const Wave& wave, std::uint64_t plane, std::uint64_t y, CheckpointVectors<T>* checkpoint);
  void look_back(std::uint32_t steps, std::uint64_t front, CheckpointVectors<T>* checkpoint);
  std::uint64_t plane_at(std::uint32_t wave, std::uint64_t position) const {
    return grid_.planes().first + (wave + position) % grid_.planes().count;
  }
  const T* plane_below(std::uint32_t wave, std::uint64_t position) const;
  const T* plane_above(std::uint32_t wave, std::uint64_t position) const;

  static constexpr std::uint64_t distance = 4;  ///< Between waves.
  /// From the plane that the last step is done with to the one that the first step looks at.
  static constexpr std::uint64_t planes_at_once(std::uint64_t steps) { return (distance - 1) * (steps - 1) + 3; }

  Grid<T>& grid_;
  const Reaction reaction_;
  ThreadTeam& team_;
  ProgressDisplay& progress_;
  std::vector<Wave> waves_;
  std::atomic<bool> failed_{false};
  std::exception_ptr failure_;
};

}  // namespace tiermap
