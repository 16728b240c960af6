// Where a graph's edges come from.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "parallel/thread_team.hpp"

namespace tiermap {

/// Vertices are numbered from 0.
using Vertex = std::uint32_t;
/// Not a vertex: what has no parent, what was not reached. Graphs have at most this many vertices.
inline constexpr Vertex no_vertex = ~Vertex{0};

struct Edge {
  Vertex source = 0;
  Vertex target = 0;
};

/// Edges in pieces of a fixed length, in any order and from several threads at once: (number of the piece's first edge,
/// the piece).
using EdgeSink = std::function<void(std::uint64_t, std::span<const Edge>)>;

/// The edges of a graph, the same every time they are asked for.
class EdgeSource {
 public:
  /// Edges in a piece; only the last one has fewer.
  static constexpr std::uint64_t piece_edges = std::uint64_t{1} << 16U;

  virtual ~EdgeSource() = default;
  virtual std::uint64_t vertices() const = 0;
  virtual std::uint64_t edges() const = 0;
  /// Gives every edge to the sink, once. Throws what the sink throws.
  virtual void for_each_piece(ThreadTeam& team, const EdgeSink& sink) const = 0;
};

/// The R-MAT graph of Graph500: 2^scale vertices, edge_factor edges for each, quadrant probabilities 0.57, 0.19, 0.19,
/// 0.05, vertices renamed by a permutation. Depends on the seed alone. `scale` from 1 to 31.
std::unique_ptr<EdgeSource> make_rmat_source(std::uint32_t scale, std::uint64_t edge_factor, std::uint64_t seed);

/// A text file: an edge list (two vertex numbers a line, from 0, anything after them ignored; lines that begin with #
/// or % are comments) or, if the first line that is no such comment begins with %%MatrixMarket, a matrix in coordinate
/// form (pattern, real, integer or complex; general, symmetric, skew-symmetric or hermitian). The whole file is looked
/// at once, here. Throws StoreError if it cannot be read, OptionError that names file and line if it cannot be
/// understood. If `both_ways`, whoever asks adds the opposite of each edge himself, and the mirror image of a symmetric
/// matrix is left out.
std::unique_ptr<EdgeSource> make_text_source(const std::string& path, bool both_ways);

}  // namespace tiermap
