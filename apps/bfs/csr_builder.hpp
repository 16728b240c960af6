// Makes a graph file from edges, however many: the arcs go to a scratch file as 64-bit words, source above target, are
// sorted there by the out-of-core sort through the same memory system that will traverse the graph, and are read once
// in order. Memory is the system's budget and a few buffers.
#pragma once

#include <string>

#include "bfs/csr_file.hpp"
#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "edges/edge_source.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

struct CsrBuildOptions {
  std::string url;           ///< Of the graph; must not exist.
  std::string scratch_path;  ///< For the arcs; must not exist, and is gone at the end.
  bool undirected = true;    ///< Add every edge's opposite.
  bool prefetch = true;
};

/// Loops and duplicates are left out. Throws OptionError, StoreError; then nothing is left behind.
Backing build_csr(const EdgeSource& source, MemorySystem& system, ThreadTeam& team, const CsrBuildOptions& options,
                  ProgressDisplay& progress);

}  // namespace tiermap
