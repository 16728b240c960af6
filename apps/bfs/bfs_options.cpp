#include "bfs/bfs_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "bfs/csr_file.hpp"
#include "command_line/backing.hpp"
#include "command_line/choice.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t most_scale = 31;
constexpr std::uint64_t default_edge_factor = 16;
constexpr std::uint64_t most_vertices = no_vertex - 1;

/// Of the R-MAT graphs whose file is surely no larger.
std::uint32_t largest_scale(std::uint64_t bytes, std::uint64_t edge_factor, bool directed) {
  std::uint32_t scale = 1;
  while (scale < most_scale &&
         CsrHeader::for_graph(std::uint64_t{2} << scale, (edge_factor * (directed ? 1 : 2)) << (scale + 1), !directed)
                 .file_bytes <= bytes) {
    ++scale;
  }
  return scale;
}

}  // namespace

void declare(CLI::App& app, BfsOptions& bfs) {
  app.add_option("--scale", bfs.scale, "Make an R-MAT graph of 2^SCALE vertices (default: 20, or what --bytes allows)");
  app.add_option("--edge-factor", bfs.edge_factor, "Edges of the R-MAT graph for each vertex (default: 16)");
  app.add_option("--input", bfs.input, "Read an edge list or a Matrix Market file instead");
  app.add_flag("--directed,!--undirected", bfs.directed, "Take edges one way (default: both ways)")
      ->each([&bfs](const std::string&) { bfs.says_directions = true; });
  app.add_option("--roots", bfs.roots, "How many searches, each from another random vertex (default: 4)");
  app.add_option("--root", bfs.root, "Search from this vertex; may be given more than once");
  app.add_option("--traversal", bfs.traversal,
                 "level-synchronous (default), or visitor-queue: each thread goes on without waiting for the others");
  app.add_option("--state", bfs.state,
                 "With visitor-queue: what belongs to vertices, and the queues, in memory (default) or mapped");
  app.add_option("--direction", bfs.direction, "top-down (default), bottom-up or auto");
  app.add_option("--scan", bfs.scan,
                 "Levels go through the file always up (ascending, default) or alternately up and down (alternate)");
  app.add_option("--lookahead", bfs.lookahead, "How much to prefetch ahead (default: budget / 4, 1MiB to 64MiB)");
  app.add_option("--graph", bfs.graph, "The graph file: kept if it is made, searched as it is if it is there");
  app.add_option("--heap", bfs.heap, "Search the graph in this persistent heap, which tiermap-ingest --heap has made");
  app.add_flag("--build-only", bfs.build_only, "Make the --graph file and stop");
  app.add_flag("--warm", bfs.warm, "One search before those that are timed");
  app.add_flag("--check-in-memory", bfs.check_in_memory, "Compare every level with a plain search in memory");
}

Direction parse_direction(const std::string& text) {
  constexpr Names<Direction, 3> directions = {
      {{"top-down", Direction::top_down}, {"bottom-up", Direction::bottom_up}, {"auto", Direction::automatic}}};
  return choose(directions, text, "direction");
}

bool parse_scan(const std::string& text) {
  return choose(Names<bool, 2>{{{"alternate", true}, {"ascending", false}}}, text, "scan");
}

bool parse_traversal(const std::string& text) {
  return choose(Names<bool, 2>{{{"level-synchronous", false}, {"visitor-queue", true}}}, text, "traversal");
}

bool parse_state(const std::string& text) {
  return choose(Names<bool, 2>{{{"memory", false}, {"mapped", true}}}, text, "state");
}

WorkloadOptions with_graph(WorkloadOptions options, const BfsOptions& bfs) {
  if (!bfs.graph.empty() && !options.file.empty()) {
    throw OptionError("--graph and --file both name the graph's file: choose one of them");
  }
  if (bfs.build_only && bfs.graph.empty()) {
    throw OptionError("--build-only makes a graph to be kept: name its file with --graph");
  }
  if (!bfs.graph.empty()) {
    options.file = bfs.graph;
    options.keep = true;
  }
  return options;
}

bool is_given_a_graph(const WorkloadOptions& options, const BfsOptions& bfs) {
  return backing_exists(options.file) && bfs.input.empty() && bfs.scale.empty();
}

std::uint32_t chosen_scale(const WorkloadOptions& options, const BfsOptions& bfs, std::uint64_t edge_factor) {
  if (!bfs.scale.empty()) {
    return static_cast<std::uint32_t>(parse_whole_number(bfs.scale, "scale", 1, most_scale));
  }
  if (!options.bytes.has_value()) {
    return default_scale;
  }
  return largest_scale(*options.bytes, edge_factor, bfs.directed);
}

std::uint64_t parse_edge_factor(const BfsOptions& bfs) {
  return whole_number_or(bfs.edge_factor, "edge factor", 1, 1024, default_edge_factor);
}

std::string graph_name(const WorkloadOptions& options, const BfsOptions& bfs) {
  for (const std::string* name : {&bfs.input, &bfs.heap, &options.file}) {
    if (!name->empty()) {
      return *name;
    }
  }
  return "the graph";
}

std::uint64_t parse_root_count(const BfsOptions& bfs) {
  constexpr std::uint64_t default_roots = 4;
  return whole_number_or(bfs.roots, "roots", 1, 1024, default_roots);
}

std::vector<Vertex> parse_roots(const BfsOptions& bfs, std::uint64_t vertices) {
  std::vector<Vertex> roots;
  for (const std::string& text : bfs.root) {
    roots.push_back(static_cast<Vertex>(parse_whole_number(text, "root", 0, vertices - 1)));
  }
  return roots;
}

namespace {

void check_numbers(const BfsOptions& bfs) {
  parse_edge_factor(bfs);
  parse_root_count(bfs);
  parse_roots(bfs, most_vertices);
  if (!bfs.roots.empty() && !bfs.root.empty()) {
    throw OptionError("--roots says how many vertices are drawn, and --root names them: choose one of them");
  }
  if (!bfs.lookahead.empty()) {
    parse_size(bfs.lookahead, "lookahead");
  }
}

}  // namespace

void check_options(const WorkloadOptions& options, const BfsOptions& bfs) {
  check_numbers(bfs);
  if (parse_direction(bfs.direction) != Direction::top_down && bfs.directed) {
    throw OptionError("direction " + bfs.direction + " needs edges both ways: leave out --directed or choose top-down");
  }
  const bool by_visitors = parse_traversal(bfs.traversal);
  if (by_visitors && bfs.direction != BfsOptions().direction) {
    throw OptionError("direction " + bfs.direction + " is of levels in step: leave out --traversal or --direction");
  }
  if (by_visitors && bfs.scan != BfsOptions().scan) {
    throw OptionError("scan " + bfs.scan + " is of levels in step: leave out --traversal or --scan");
  }
  if (!by_visitors && parse_state(bfs.state)) {
    throw OptionError("state " + bfs.state + " needs queues that may be on a store: choose --traversal visitor-queue");
  }
  if (!bfs.input.empty() && !bfs.scale.empty()) {
    throw OptionError("--scale makes a graph and --input reads one: choose one of them");
  }
  if (!bfs.input.empty() && !bfs.edge_factor.empty()) {
    throw OptionError("--edge-factor makes a graph and --input reads one: choose one of them");
  }
  if (options.bytes.has_value() && !(bfs.input.empty() && bfs.scale.empty())) {
    throw OptionError(
        "--bytes chooses how large a graph is made, as --scale says and --input knows: choose one of them");
  }
  const bool makes_one = !bfs.input.empty() || !bfs.scale.empty() || bfs.build_only;
  if (makes_one && backing_exists(options.file)) {
    throw OptionError(fmt::format("{} exists: name a new file, or leave out --scale and --input to search it as it is",
                                  options.file));
  }
}

void check_directions(const BfsOptions& bfs, bool graph_is_undirected, const std::string& name) {
  if (bfs.says_directions && bfs.directed == graph_is_undirected) {
    throw OptionError(
        fmt::format("the edges of {} go {}, and --{} asks for others: leave it out, or make another graph", name,
                    graph_is_undirected ? "both ways" : "one way", bfs.directed ? "directed" : "undirected"));
  }
}

void check_edge_factor(const BfsOptions& bfs, std::uint64_t vertices, std::uint64_t edges, const std::string& name) {
  if (!bfs.edge_factor.empty() && edges != parse_edge_factor(bfs) * vertices) {
    throw OptionError(fmt::format(
        "{} was made from {} edges between {} vertices, and --edge-factor {} asks for others: leave it out, "
        "or make another graph",
        name, edges, vertices, bfs.edge_factor));
  }
}

void check_bytes(const WorkloadOptions& options, const CsrHeader& header, const std::string& name) {
  if (!options.bytes.has_value()) {
    return;
  }
  const std::uint32_t scale = largest_scale(
      *options.bytes, header.input_edges / std::max<std::uint64_t>(header.vertices, 1), !header.is_undirected());
  if (header.vertices != std::uint64_t{1} << scale) {
    throw OptionError(
        fmt::format("{} has {} vertices, and --bytes {} asks for a graph of scale {}: leave it out, or make another "
                    "graph",
                    name, header.vertices, format_size(*options.bytes), scale));
  }
}

void check_heap_options(const WorkloadOptions& options, const BfsOptions& bfs) {
  check_numbers(bfs);
  check_directions(bfs, false, bfs.heap);
  if (options.system == System::memory) {
    throw OptionError("--heap is searched where it lies: choose --system tiermap or mmap");
  }
  if (!options.file.empty() || !bfs.graph.empty() || !bfs.scale.empty() || !bfs.input.empty() || bfs.build_only ||
      options.bytes.has_value() || !bfs.edge_factor.empty()) {
    throw OptionError(
        "--heap is a graph that tiermap-ingest has made: leave out --graph, --file, --bytes, --scale, --edge-factor, "
        "--input and --build-only");
  }
  if (parse_traversal(bfs.traversal) || parse_state(bfs.state) || bfs.warm || bfs.check_in_memory ||
      parse_direction(bfs.direction) != Direction::top_down) {
    throw OptionError(
        "--heap is searched level by level, top-down: leave out --traversal, --state, --direction, "
        "--warm and --check-in-memory");
  }
}

}  // namespace tiermap
