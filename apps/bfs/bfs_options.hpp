// What tiermap-bfs is told beside the shared options.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bfs/traversal.hpp"
#include "command_line/options.hpp"

namespace tiermap {

/// The scale of a graph of whose size nothing is said.
inline constexpr std::uint32_t default_scale = 20;

/// The program's own options, as they are typed.
struct BfsOptions {
  std::string scale;
  std::string edge_factor;
  std::string input;
  bool directed = false;
  bool says_directions = false;  ///< Whether --directed or --undirected was given.
  std::string roots;
  std::vector<std::string> root;
  std::string traversal = "level-synchronous";
  std::string state = "memory";
  std::string direction = "top-down";
  std::string scan = "ascending";
  std::string lookahead;
  std::string graph;
  std::string heap;
  bool build_only = false;
  bool warm = false;
  bool check_in_memory = false;
};

/// Declares them on `app`.
void declare(CLI::App& app, BfsOptions& bfs);

/// Each of these throws OptionError, one line that names the value and the remedy.
Direction parse_direction(const std::string& text);
/// Whether every other level goes through the graph from its end.
bool parse_scan(const std::string& text);
/// Whether threads go on without waiting for the others at each level.
bool parse_traversal(const std::string& text);
/// Whether what belongs to a vertex, and queues, are on stores too.
bool parse_state(const std::string& text);
std::uint64_t parse_edge_factor(const BfsOptions& bfs);
/// What messages call the graph: the file that it is read from, if there is one.
std::string graph_name(const WorkloadOptions& options, const BfsOptions& bfs);

std::uint64_t parse_root_count(const BfsOptions& bfs);
/// The vertices that were named, each below `vertices`.
std::vector<Vertex> parse_roots(const BfsOptions& bfs, std::uint64_t vertices);
/// From --scale, or the largest scale whose file has at most --bytes bytes.
std::uint32_t chosen_scale(const WorkloadOptions& options, const BfsOptions& bfs, std::uint64_t edge_factor);
/// --graph is --file and --keep in one.
WorkloadOptions with_graph(WorkloadOptions options, const BfsOptions& bfs);
/// Whether there is a graph file already, and nothing is to be made.
bool is_given_a_graph(const WorkloadOptions& options, const BfsOptions& bfs);
/// What can be known to be wrong before a graph is looked at or made.
void check_options(const WorkloadOptions& options, const BfsOptions& bfs);
/// What was asked for, a graph that is there already must have.
void check_directions(const BfsOptions& bfs, bool graph_is_undirected, const std::string& name);
/// The same of the edges that it was made from.
void check_edge_factor(const BfsOptions& bfs, std::uint64_t vertices, std::uint64_t edges, const std::string& name);
/// The same of the size that an R-MAT graph was made for.
void check_bytes(const WorkloadOptions& options, const CsrHeader& header, const std::string& name);
/// As check_options() where the graph is in a heap: what is of files, of edges both ways and of queues is refused.
void check_heap_options(const WorkloadOptions& options, const BfsOptions& bfs);

}  // namespace tiermap
