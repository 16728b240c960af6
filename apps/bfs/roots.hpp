// Where searches begin.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bfs/bfs_options.hpp"
#include "edges/edge_source.hpp"

namespace tiermap {

/// As told by the options, or vertices with neighbours, drawn at random by `seed`; fewer than asked for if few have
/// any, and one at least. Throws OptionError, which calls the graph `name`, for one without arcs.
std::vector<Vertex> choose_roots(const BfsOptions& bfs, const std::string& name, std::uint64_t seed,
                                 std::uint64_t vertices, std::uint64_t arcs,
                                 const std::function<bool(Vertex)>& has_neighbours);

}  // namespace tiermap
