// Breadth-first search of a graph in a persistent heap.
#pragma once

#include "bfs/bfs_options.hpp"
#include "command_line/report.hpp"

namespace tiermap {

/// Searches the graph in the heap that --heap names. The options have been checked.
Report search_heap(const WorkloadOptions& options, const BfsOptions& bfs);

}  // namespace tiermap
