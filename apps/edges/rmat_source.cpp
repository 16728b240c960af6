#include <algorithm>
#include <vector>

#include "edges/edge_source.hpp"
#include "parallel/random.hpp"

namespace tiermap {
namespace {

/// Shares of 2^32 below which an edge's ends lie in the first, second, third quadrant.
constexpr std::uint64_t share(double probability) {
  return static_cast<std::uint64_t>(probability * 4294967296.0);
}
constexpr std::uint64_t first_quadrant = share(0.57);
constexpr std::uint64_t second_quadrant = share(0.57 + 0.19);
constexpr std::uint64_t third_quadrant = share(0.57 + 0.19 + 0.19);

class RmatSource final : public EdgeSource {
 public:
  RmatSource(std::uint32_t scale, std::uint64_t edge_factor, std::uint64_t seed)
      : scale_(scale), edges_(edge_factor << scale), seed_(seed) {}

  std::uint64_t vertices() const override { return std::uint64_t{1} << scale_; }
  std::uint64_t edges() const override { return edges_; }

  void for_each_piece(ThreadTeam& team, const EdgeSink& sink) const override {
    std::vector<std::vector<Edge>> buffers(team.size(), std::vector<Edge>(std::min(piece_edges, edges_)));
    std::atomic<std::uint64_t> next{0};
    team.run([&](std::uint32_t member) {
      for (std::uint64_t first = next.fetch_add(piece_edges); first < edges_; first = next.fetch_add(piece_edges)) {
        const std::uint64_t count = std::min(piece_edges, edges_ - first);
        for (std::uint64_t index = 0; index < count; ++index) {
          buffers[member][index] = edge(first + index);
        }
        sink(first, std::span<const Edge>(buffers[member]).first(count));
      }
    });
  }

 private:
  /// Walks down the adjacency matrix, one quadrant a bit.
  Edge edge(std::uint64_t index) const {
    std::uint64_t source = 0;
    std::uint64_t target = 0;
    const std::uint64_t edge_seed = random_word(seed_, index);
    std::uint64_t random = 0;
    for (std::uint32_t bit = 0; bit < scale_; ++bit) {
      // One random word does for two bits.
      random = bit % 2 == 0 ? mix_word(edge_seed + bit * 0x9e3779b97f4a7c15U) : random >> 32U;
      const std::uint64_t draw = random & 0xffffffffU;
      const std::uint64_t lower = static_cast<std::uint64_t>(draw >= second_quadrant);
      const std::uint64_t righter = static_cast<std::uint64_t>(draw >= first_quadrant) - lower +
                                    static_cast<std::uint64_t>(draw >= third_quadrant);
      source = source << 1U | lower;
      target = target << 1U | righter;
    }
    return {rename(source), rename(target)};
  }

  /// A permutation of the vertices: multiplying by an odd number and folding the upper half onto the lower are each
  /// one.
  Vertex rename(std::uint64_t vertex) const {
    const std::uint64_t mask = vertices() - 1;
    const std::uint32_t fold = std::max(1U, scale_ / 2);
    for (std::uint64_t round = 0; round < 4; ++round) {
      const std::uint64_t key = random_word(seed_, ~round);
      vertex = (vertex * (key | 1U) + (key >> 32U)) & mask;
      vertex ^= vertex >> fold;
    }
    return static_cast<Vertex>(vertex);
  }

  std::uint32_t scale_;
  std::uint64_t edges_;
  std::uint64_t seed_;
};

}  // namespace

std::unique_ptr<EdgeSource> make_rmat_source(std::uint32_t scale, std::uint64_t edge_factor, std::uint64_t seed) {
  return std::make_unique<RmatSource>(scale, edge_factor, seed);
}

}  // namespace tiermap
