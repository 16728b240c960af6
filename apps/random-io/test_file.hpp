// The file that is worked on: made before, and looked through afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Writes every block: its name, a count of 0, and random words.
void write_blocks(Store& store, std::uint64_t block_bytes, std::uint64_t seed, ThreadTeam& team,
                  ProgressDisplay& progress);

/// Reads every block, and says in one line what is not as it should be: a block's name, how often it was written,
/// or another of its words. Empty if all is right.
std::string find_wrong_block(Store& store, std::uint64_t block_bytes, std::uint64_t seed,
                             std::span<const std::uint32_t> writes, ThreadTeam& team, ProgressDisplay& progress);

}  // namespace tiermap
