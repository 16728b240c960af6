// The stream of edges gone through beside its insertion: before, to know how large the file must be; afterwards, to
// know what must be in it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "edges/edge_source.hpp"
#include "graph_heap/list_sums.hpp"
#include "ingest/adjacency_file.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

/// The blocks that the lists will have. Eight bytes of memory for each vertex meanwhile.
BlockCounts count_blocks(const EdgeSource& source, ThreadTeam& team, ProgressDisplay& progress);

/// What every list must be.
ListSums sum_lists(const EdgeSource& source, ThreadTeam& team, ProgressDisplay& progress);

/// Follows every list, and says in one line of the first that is wrong what is wrong with it. Empty if all are right.
/// `follow` goes through one list, or finds it damaged; it is called by several threads at once.
std::string find_wrong_list(const std::function<std::optional<ListSum>(Vertex)>& follow, const ListSums& sums,
                            std::uint64_t vertices, ThreadTeam& team, ProgressDisplay& progress);

/// The line for whoever asked whether the lists at `place` are those of a stream: what find_wrong_list() said, with
/// what to do. Empty if that is.
std::string name_wrong_lists(const std::string& place, const std::string& failure);

}  // namespace tiermap
