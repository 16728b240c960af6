#include "bfs/traversal.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <memory>

#include "bfs/range_announcer.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t chunk_words = RangeAnnouncer::chunk_vertices / 64;
/// Beamer's two constants: go bottom-up when the frontier has more than 1/14 of the arcs not yet looked at, and back
/// when it has less than 1/24 of the vertices.
constexpr std::uint64_t bottom_up_share = 14;
constexpr std::uint64_t top_down_share = 24;

/// A set of vertices; each thread may add to it.
class VertexSet {
 public:
  explicit VertexSet(std::uint64_t vertices) : words_((vertices + 63) / 64) {}
  std::uint64_t word_count() const { return words_.size(); }
  std::uint64_t word(std::uint64_t index) const { return words_[index]; }
  bool has(std::uint64_t vertex) const { return (words_[vertex / 64] >> (vertex % 64) & 1U) != 0; }
  void add(std::uint64_t vertex) {
    std::atomic_ref<std::uint64_t>(words_[vertex / 64])
        .fetch_or(std::uint64_t{1} << (vertex % 64), std::memory_order_relaxed);
  }
  void clear() { std::fill(words_.begin(), words_.end(), 0); }
  void swap(VertexSet& other) noexcept { words_.swap(other.words_); }

 private:
  std::vector<std::uint64_t> words_;
};

/// Of a graph that lies in order in a file.
template <typename Word>
RangeAnnouncer announcer_of(const CsrGraph& graph, const TraversalOptions& options, bool backwards, const Word& word) {
  return RangeAnnouncer(graph, options.lookahead_bytes, options.page_size_bytes, backwards, word);
}

/// Where the lists of a graph in containers are, only looking them up tells.
struct NothingToAnnounce {
  void reached(std::uint64_t) const {}
};
template <typename Word>
NothingToAnnounce announcer_of(const HeapGraph&, const TraversalOptions&, bool, const Word&) {
  return {};
}

template <typename Graph>
class Search {
 public:
  Search(const Graph& graph, ThreadTeam& team, const TraversalOptions& options, std::span<Vertex> parents)
      : graph_(graph),
        team_(team),
        options_(options),
        parents_(parents),
        frontier_(graph.vertices()),
        next_(graph.vertices()) {}

  Traversal run(Vertex root) {
    std::ranges::fill(parents_, no_vertex);
    parents_[root] = root;
    frontier_.add(root);
    result_.level_counts.push_back(1);
    while (result_.level_counts.back() != 0) {
      const auto began = std::chrono::steady_clock::now();
      const bool bottom_up = goes_bottom_up();
      const std::uint64_t reached = bottom_up ? step_bottom_up() : step_top_down();
      result_.level_counts.push_back(reached);
      frontier_.swap(next_);
      next_.clear();
      result_.level_seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
      backwards_ = options_.alternate && !backwards_;
    }
    result_.level_counts.pop_back();
    result_.parents = parents_;
    return std::move(result_);
  }

 private:
  bool goes_bottom_up() {
    if (options_.direction != Direction::automatic) {
      return options_.direction == Direction::bottom_up;
    }
    if (was_bottom_up_) {
      was_bottom_up_ = result_.level_counts.back() > graph_.vertices() / top_down_share;
    } else {
      const std::uint64_t arcs = arcs_of_frontier();
      was_bottom_up_ = arcs > (graph_.arcs() - std::min(graph_.arcs(), arcs_passed_)) / bottom_up_share;
      arcs_passed_ += arcs;
    }
    return was_bottom_up_;
  }

  std::uint64_t arcs_of_frontier() {
    std::atomic<std::uint64_t> arcs{0};
    for_each_chunk([&](std::uint64_t, std::uint64_t first, std::uint64_t end) {
      std::uint64_t sum = 0;
      for (std::uint64_t index = first; index < end; ++index) {
        for (std::uint64_t bits = frontier_.word(index); bits != 0; bits &= bits - 1) {
          const auto [begin_arc, end_arc] = graph_.arcs_of(vertex_of(index, bits));
          sum += end_arc - begin_arc;
        }
      }
      arcs += sum;
    });
    return arcs;
  }

  std::uint64_t step_top_down() {
    auto announcer =
        announcer_of(graph_, options_, backwards_, [this](std::uint64_t index) { return frontier_.word(index); });
    return step(announcer, [this](std::uint64_t index, std::uint64_t& looked_at) {
      std::uint64_t reached = 0;
      for (std::uint64_t bits = frontier_.word(index); bits != 0; bits &= bits - 1) {
        reached += expand(static_cast<Vertex>(vertex_of(index, bits)), looked_at);
      }
      return reached;
    });
  }

  std::uint64_t step_bottom_up() {
    const auto unreached = [this](std::uint64_t index) {
      std::uint64_t bits = 0;
      const std::uint64_t end = std::min<std::uint64_t>(64, graph_.vertices() - index * 64);
      for (std::uint64_t bit = 0; bit < end; ++bit) {
        const bool is =
            std::atomic_ref<Vertex>(parents_[index * 64 + bit]).load(std::memory_order_relaxed) == no_vertex;
        bits |= std::uint64_t{is} << bit;
      }
      return bits;
    };
    auto announcer = announcer_of(graph_, options_, backwards_, unreached);
    return step(announcer, [&](std::uint64_t index, std::uint64_t& looked_at) {
      std::uint64_t reached = 0;
      for (std::uint64_t bits = unreached(index); bits != 0; bits &= bits - 1) {
        reached += find_parent(static_cast<Vertex>(vertex_of(index, bits)), looked_at);
      }
      return reached;
    });
  }

  /// Every word of 64 vertices, once, by all threads, chunk after chunk in this level's direction.
  template <typename Announcer, typename Word>
  std::uint64_t step(Announcer& announcer, const Word& word) {
    std::atomic<std::uint64_t> reached{0};
    std::atomic<std::uint64_t> looked_at{0};
    for_each_chunk([&](std::uint64_t place, std::uint64_t first, std::uint64_t end) {
      announcer.reached(place);
      std::uint64_t chunk_reached = 0;
      std::uint64_t chunk_looked_at = 0;
      for (std::uint64_t index = first; index < end; ++index) {
        chunk_reached += word(index, chunk_looked_at);
      }
      reached += chunk_reached;
      looked_at += chunk_looked_at;
      if (options_.progress) {
        options_.progress(chunk_looked_at);
      }
    });
    result_.arcs_looked_at += looked_at;
    return reached;
  }

  template <typename Chunk>
  void for_each_chunk(const Chunk& chunk) {
    const std::uint64_t words = frontier_.word_count();
    const std::uint64_t chunks = (words + chunk_words - 1) / chunk_words;
    team_.for_each(chunks, [&](std::uint64_t place) {
      const std::uint64_t index = backwards_ ? chunks - 1 - place : place;
      chunk(place, index * chunk_words, std::min(words, (index + 1) * chunk_words));
    });
  }

  std::uint64_t expand(Vertex vertex, std::uint64_t& looked_at) {
    std::uint64_t reached = 0;
    const std::span<const Vertex> neighbours = graph_.neighbours(vertex);
    looked_at += neighbours.size();
    for (const Vertex neighbour : neighbours) {
      check(neighbour, vertex);
      const std::atomic_ref<Vertex> parent(parents_[neighbour]);
      Vertex expected = no_vertex;
      if (parent.load(std::memory_order_relaxed) == no_vertex &&
          parent.compare_exchange_strong(expected, vertex, std::memory_order_relaxed)) {
        next_.add(neighbour);
        ++reached;
      }
    }
    return reached;
  }

  std::uint64_t find_parent(Vertex vertex, std::uint64_t& looked_at) {
    for (const Vertex neighbour : graph_.neighbours(vertex)) {
      check(neighbour, vertex);
      ++looked_at;
      if (frontier_.has(neighbour)) {
        std::atomic_ref<Vertex>(parents_[vertex]).store(neighbour, std::memory_order_relaxed);
        next_.add(vertex);
        return 1;
      }
    }
    return 0;
  }

  void check(Vertex neighbour, Vertex vertex) const {
    if (neighbour >= graph_.vertices()) {
      graph_.refuse(vertex);
    }
  }

  static std::uint64_t vertex_of(std::uint64_t index, std::uint64_t bits) {
    return index * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
  }

  const Graph& graph_;
  ThreadTeam& team_;
  const TraversalOptions& options_;
  const std::span<Vertex> parents_;
  VertexSet frontier_;
  VertexSet next_;
  Traversal result_;
  bool backwards_ = false;
  bool was_bottom_up_ = false;
  std::uint64_t arcs_passed_ = 0;
};

}  // namespace

Traversal traverse(const CsrGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                   std::span<Vertex> parents) {
  return Search<CsrGraph>(graph, team, options, parents).run(root);
}

Traversal traverse(const HeapGraph& graph, Vertex root, ThreadTeam& team, const TraversalOptions& options,
                   std::span<Vertex> parents) {
  return Search<HeapGraph>(graph, team, options, parents).run(root);
}

std::uint64_t traversal_state_bytes(std::uint64_t vertices) noexcept {
  return vertices * sizeof(Vertex) + 2 * ((vertices + 63) / 64 * 8);
}

}  // namespace tiermap
