// Breadth-first search without levels in step: Pearce, Gokhale and Amato's asynchronous traversal (SC 2010; HavoqGT).
//
// Each vertex belongs to one thread. A visitor carries a vertex, the level it would have and the parent that would give
// it that; it goes to the vertex's owner, who keeps the better level and, if it was better, puts the vertex into his
// queue. Threads empty their queues lowest level first and wait for nobody: while one waits for a page the others go
// on. A vertex that is visited before the shortest way to it is known is visited again.
#pragma once

#include "bfs/csr_file.hpp"
#include "bfs/search_state.hpp"
#include "bfs/traversal.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

/// Searches from `root`. Of the options all but `direction` and `alternate` apply. The state must keep levels. Throws
/// StoreError if the graph is damaged, or mapped queues overflow.
Traversal traverse_by_visitors(const CsrGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                               SearchState& state);

/// Memory that visitors under way take, at most.
std::uint64_t visitor_bytes(std::uint32_t threads) noexcept;

}  // namespace tiermap
