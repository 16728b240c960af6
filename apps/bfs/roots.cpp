#include "bfs/roots.hpp"

#include <algorithm>
#include <set>

#include "parallel/random.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

std::vector<Vertex> choose_roots(const BfsOptions& bfs, const std::string& name, std::uint64_t seed,
                                 std::uint64_t vertices, std::uint64_t arcs,
                                 const std::function<bool(Vertex)>& has_neighbours) {
  if (arcs == 0) {
    throw OptionError(name + " has no edge that joins two vertices: nothing to search, give another");
  }
  std::vector<Vertex> roots = parse_roots(bfs, vertices);
  if (!roots.empty()) {
    return roots;
  }
  const std::uint64_t wanted = std::min<std::uint64_t>(parse_root_count(bfs), vertices);
  // Each is a read: of a graph with few vertices that have neighbours, fewer than wanted will do.
  const std::uint64_t most_draws = 1000 + 64 * wanted;
  std::set<Vertex> drawn;
  for (std::uint64_t draw = 0; draw < most_draws && roots.size() < wanted; ++draw) {
    const auto vertex = static_cast<Vertex>(random_word(seed ^ 0x726f6f74U, draw) % vertices);
    if (drawn.insert(vertex).second && has_neighbours(vertex)) {
      roots.push_back(vertex);
    }
  }
  for (std::uint64_t vertex = 0; roots.empty() && vertex < vertices; ++vertex) {
    if (has_neighbours(static_cast<Vertex>(vertex))) {
      roots.push_back(static_cast<Vertex>(vertex));
    }
  }
  return roots;
}

}  // namespace tiermap
