#include "bfs/tree_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>

#include "command_line/backing.hpp"

namespace tiermap {
namespace {

// What a thread reads at once. Each has buffers of its own, and 64 of them have to fit beside the budget.
constexpr std::uint64_t block_vertices = std::uint64_t{1} << 13U;
constexpr std::uint64_t piece_arcs = std::uint64_t{1} << 15U;

/// Remembers the first thing found wrong, by whichever thread.
class FirstFailure {
 public:
  bool found() const { return found_.load(std::memory_order_relaxed); }
  void set(const std::string& failure) {
    const std::lock_guard lock(mutex_);
    if (!found_.exchange(true)) {
      failure_ = failure;
    }
  }
  std::string text() const { return failure_; }

 private:
  std::atomic<bool> found_{false};
  std::mutex mutex_;
  std::string failure_;
};

/// Rules 3 and 4 for one arc.
std::string broken_rule(Vertex source, Vertex target, std::span<const std::uint32_t> levels, bool undirected) {
  const std::uint32_t from = levels[source];
  const std::uint32_t to = levels[target];
  if (from != unreached && to == unreached) {
    return fmt::format("rule 4: vertex {} was reached, and its neighbour {} was not", source, target);
  }
  if (from == unreached || to == unreached) {
    return undirected && from != to
               ? fmt::format("rule 4: vertex {} was reached, and its neighbour {} was not", target, source)
               : std::string();
  }
  if (to > from + 1 || (undirected && from > to + 1)) {
    return fmt::format("rule 3: an edge joins vertex {} at level {} and vertex {} at level {}", source, from, target,
                       to);
  }
  return {};
}

std::string compare_levels(const Traversal& traversal, std::span<const std::uint32_t> levels) {
  std::vector<std::uint64_t> counts(traversal.level_counts.size());
  for (const std::uint32_t level : levels) {
    if (level == unreached) {
      continue;
    }
    if (level >= counts.size()) {
      return fmt::format("rule 2: the tree has a level {}, and the search had {}", level, counts.size());
    }
    ++counts[level];
  }
  for (std::size_t level = 0; level < counts.size(); ++level) {
    if (counts[level] != traversal.level_counts[level]) {
      return fmt::format("rule 2: level {} has {} vertices in the tree, and had {} in the search", level, counts[level],
                         traversal.level_counts[level]);
    }
  }
  return {};
}

}  // namespace

TreeLevels levels_of_tree(std::span<const Vertex> parents, Vertex root) {
  TreeLevels tree;
  if (root >= parents.size() || parents[root] != root) {
    tree.failure = fmt::format("rule 1: the root {} is not its own parent", root);
    return tree;
  }
  std::vector<std::uint32_t> levels(parents.size(), unreached);
  levels[root] = 0;
  for (Vertex start = 0; start < parents.size(); ++start) {
    // The way up is gone twice rather than written down: it may be as long as the graph has vertices.
    std::uint32_t steps = 0;
    Vertex vertex = start;
    while (parents[vertex] != no_vertex && levels[vertex] == unreached) {
      if (parents[vertex] >= parents.size()) {
        tree.failure = fmt::format("rule 1: vertex {} has a parent that does not exist, {}", vertex, parents[vertex]);
        return tree;
      }
      vertex = parents[vertex];
      if (++steps > parents.size()) {
        tree.failure = fmt::format("rule 1: the parents of vertex {} go in a circle", start);
        return tree;
      }
    }
    if (steps != 0 && levels[vertex] == unreached) {
      tree.failure = fmt::format("rule 1: the parents of vertex {} do not lead to the root", start);
      return tree;
    }
    std::uint32_t level = levels[vertex] + steps;
    for (vertex = start; steps != 0; --steps) {
      levels[vertex] = level--;
      vertex = parents[vertex];
    }
  }
  tree.levels = std::move(levels);
  return tree;
}

ArcWalk walk_store(Store& store, const CsrHeader& header, ThreadTeam& team) {
  return [&store, header, &team](const ArcSink& sink) {
    team.for_each((header.vertices + block_vertices - 1) / block_vertices, [&](std::uint64_t block) {
      const std::uint64_t first = block * block_vertices;
      const std::uint64_t count = std::min(block_vertices, header.vertices - first);
      AlignedBuffer offset_buffer((count + 1) * sizeof(std::uint64_t));
      const auto offsets = offset_buffer.as_span<std::uint64_t>().first(count + 1);
      read_fully(store, offsets.data(), offsets.size_bytes(), header.offsets_at + first * sizeof(std::uint64_t));
      AlignedBuffer target_buffer(piece_arcs * sizeof(Vertex));
      std::uint64_t vertex = 0;
      for (std::uint64_t begin = offsets[0]; begin < offsets[count];) {
        const std::uint64_t end = std::min(begin + piece_arcs, offsets[count]);
        if (end > header.arcs) {
          refuse_damaged_graph(store.name(), first + vertex);
        }
        const auto targets = target_buffer.as_span<Vertex>().first(end - begin);
        read_fully(store, targets.data(), targets.size_bytes(), header.targets_at + begin * sizeof(Vertex));
        for (std::uint64_t at = begin; at < end;) {
          while (vertex < count && offsets[vertex + 1] <= at) {
            ++vertex;
          }
          if (vertex == count) {
            refuse_damaged_graph(store.name(), first + vertex);
          }
          const std::uint64_t stop = std::min(end, offsets[vertex + 1]);
          sink(static_cast<Vertex>(first + vertex), targets.subspan(at - begin, stop - at));
          at = stop;
        }
        begin = end;
      }
    });
  };
}

TreeCheck check_tree(const Traversal& traversal, Vertex root, bool undirected, const ArcWalk& walk) {
  TreeCheck check;
  const TreeLevels tree = levels_of_tree(traversal.parents, root);
  check.failure = tree.failure.empty() ? compare_levels(traversal, tree.levels) : tree.failure;
  if (!check.failure.empty()) {
    return check;
  }
  FirstFailure failure;
  std::vector<std::uint64_t> joined((traversal.parents.size() + 63) / 64);
  std::atomic<std::uint64_t> arcs_reached{0};
  walk([&](Vertex source, std::span<const Vertex> targets) {
    if (failure.found()) {
      return;
    }
    arcs_reached += tree.levels[source] != unreached ? targets.size() : 0;
    for (const Vertex target : targets) {
      if (target >= tree.levels.size()) {
        failure.set(fmt::format("the graph has an edge to vertex {}, which does not exist", target));
        return;
      }
      if (std::string broken = broken_rule(source, target, tree.levels, undirected); !broken.empty()) {
        failure.set(broken);
        return;
      }
      if (traversal.parents[target] == source) {
        std::atomic_ref<std::uint64_t>(joined[target / 64]).fetch_or(std::uint64_t{1} << (target % 64));
      }
    }
  });
  check.failure = failure.text();
  check.arcs_reached = arcs_reached;
  for (std::uint64_t vertex = 0; vertex < traversal.parents.size() && check.failure.empty(); ++vertex) {
    const bool in_tree = vertex != root && traversal.parents[vertex] != no_vertex;
    if (in_tree && (joined[vertex / 64] >> (vertex % 64) & 1U) == 0) {
      check.failure =
          fmt::format("rule 5: no edge joins vertex {} and its parent {}", vertex, traversal.parents[vertex]);
    }
  }
  return check;
}

std::uint64_t tree_check_bytes(std::uint64_t vertices) noexcept {
  return vertices * sizeof(std::uint32_t) + (vertices + 63) / 64 * sizeof(std::uint64_t);
}

std::vector<std::uint32_t> reference_levels(const std::vector<std::vector<Vertex>>& neighbours, Vertex root) {
  std::vector<std::uint32_t> levels(neighbours.size(), unreached);
  std::deque<Vertex> queue = {root};
  levels[root] = 0;
  while (!queue.empty()) {
    const Vertex vertex = queue.front();
    queue.pop_front();
    for (const Vertex neighbour : neighbours[vertex]) {
      if (levels[neighbour] == unreached) {
        levels[neighbour] = levels[vertex] + 1;
        queue.push_back(neighbour);
      }
    }
  }
  return levels;
}

std::vector<std::vector<Vertex>> neighbours_of(const EdgeSource& source, bool undirected) {
  std::vector<std::vector<Vertex>> neighbours(source.vertices());
  ThreadTeam alone(1);
  source.for_each_piece(alone, [&](std::uint64_t, std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      neighbours[edge.source].push_back(edge.target);
      if (undirected) {
        neighbours[edge.target].push_back(edge.source);
      }
    }
  });
  return neighbours;
}

std::vector<std::vector<Vertex>> neighbours_of(std::uint64_t vertices, const ArcWalk& walk) {
  std::vector<std::vector<Vertex>> neighbours(vertices);
  std::mutex mutex;
  walk([&](Vertex source, std::span<const Vertex> targets) {
    const std::lock_guard lock(mutex);
    neighbours[source].insert(neighbours[source].end(), targets.begin(), targets.end());
  });
  return neighbours;
}

std::uint64_t reference_bytes(std::uint64_t vertices, std::uint64_t arcs) noexcept {
  // A block of memory is at least so large, and a vector that grew has up to twice the room it needs.
  constexpr std::uint64_t least_block = 32;
  constexpr std::uint64_t arc = 2 * sizeof(Vertex);
  // Two tables of levels, and the queue.
  constexpr std::uint64_t vertex = sizeof(std::vector<Vertex>) + 2 * sizeof(std::uint32_t) + sizeof(Vertex);
  return vertices * vertex + std::min(vertices, arcs) * least_block + arcs * arc;
}

}  // namespace tiermap
