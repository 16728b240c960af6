// A table of which it is known what there is to learn from it.
#pragma once

#include <cstdint>

#include "command_line/backing.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "points/point_memory.hpp"

namespace tiermap {

/// One row of twenty has a class that was drawn and says nothing: no forest is right about more than the others, but
/// by chance.
inline constexpr std::uint32_t one_wrong_of = 20;

/// Fills the store with rows: particles near the middle of their class (points/particles.hpp), and the class. The same
/// for the same seed.
void write_planted_table(Store& table, const PointLayout& layout, std::uint32_t classes, std::uint64_t seed,
                         ThreadTeam& team, ProgressDisplay& progress);

}  // namespace tiermap
