// Access traces for the policy simulator, made up or read from a file.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "replay/access_trace.hpp"

namespace tiermap::simulation {

using Random = std::mt19937_64;

inline std::uint64_t below(Random& random, std::uint64_t bound) {
  return std::uniform_int_distribution<std::uint64_t>(0, bound - 1)(random);
}

inline double fraction(Random& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

inline std::vector<std::uint32_t> shuffled(std::uint32_t count, Random& random) {
  std::vector<std::uint32_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

/// Independent touches of pages from `first` on; the k-th most popular is touched with a chance that falls as 1 /
/// k^exponent (0 is uniform). Popular pages lie anywhere.
inline void add_zipf(Trace& trace, std::uint32_t first, std::uint32_t pages, std::uint32_t touches, double exponent,
                     Random& random) {
  std::vector<double> sums(pages);
  double sum = 0;
  for (std::uint32_t rank = 0; rank < pages; ++rank) {
    sum += std::pow(rank + 1.0, -exponent);
    sums[rank] = sum;
  }
  const std::vector<std::uint32_t> page_of_rank = shuffled(pages, random);
  for (std::uint32_t count = 0; count < touches; ++count) {
    const auto rank = std::lower_bound(sums.begin(), sums.end() - 1, fraction(random) * sum) - sums.begin();
    trace.touch(first + page_of_rank[static_cast<std::size_t>(rank)]);
  }
}

/// The pages from `first` on, in order, `rounds` times.
inline void add_scan(Trace& trace, std::uint32_t first, std::uint32_t pages, std::uint32_t rounds) {
  for (std::uint32_t step = 0; step < pages * rounds; ++step) {
    trace.touch(first + step % pages);
  }
}

/// Searches by halves in a sorted vector of `pages` pages for keys that lie in any of them alike.
inline void add_searches(Trace& trace, std::uint32_t pages, std::uint32_t searches, Random& random) {
  for (std::uint32_t search = 0; search < searches; ++search) {
    const std::uint64_t wanted = below(random, pages);
    for (std::uint64_t first = 0, end = pages; first < end;) {
      const std::uint64_t middle = first + (end - first) / 2;
      trace.touch(middle);
      (wanted <= middle ? end : first) = wanted <= middle ? middle : middle + 1;
    }
  }
}

/// Neighbours of all vertices of a graph, one after another, and where each vertex's begin.
struct CompressedGraph {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> neighbours;
};

/// Both ends of one edge by R-MAT with Graph500's probabilities (0.57, 0.19, 0.19, 0.05).
inline std::pair<std::uint32_t, std::uint32_t> recursive_matrix_edge(unsigned scale, Random& random) {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  for (unsigned bit = 0; bit < scale; ++bit) {
    const double choice = fraction(random);
    from = from * 2 + (choice >= 0.76 ? 1 : 0);
    to = to * 2 + ((choice >= 0.57 && choice < 0.76) || choice >= 0.95 ? 1 : 0);
  }
  return {from, to};
}

inline CompressedGraph make_graph(unsigned scale, unsigned edge_factor, Random& random) {
  const std::uint32_t vertices = 1U << scale;
  const std::vector<std::uint32_t> number = shuffled(vertices, random);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges(std::size_t{vertices} * edge_factor);
  CompressedGraph graph;
  graph.offsets.assign(vertices + std::size_t{1}, 0);
  for (auto& [from, to] : edges) {
    const auto edge = recursive_matrix_edge(scale, random);
    from = number[edge.first];
    to = number[edge.second];
    ++graph.offsets[from + std::size_t{1}];
    ++graph.offsets[to + std::size_t{1}];
  }
  std::partial_sum(graph.offsets.begin(), graph.offsets.end(), graph.offsets.begin());
  graph.neighbours.resize(edges.size() * 2);
  std::vector<std::uint64_t> next(graph.offsets.begin(), graph.offsets.end() - 1);
  for (const auto& [from, to] : edges) {
    graph.neighbours[next[from]++] = to;
    graph.neighbours[next[to]++] = from;
  }
  return graph;
}

enum class FrontierOrder : std::uint8_t { address, discovery };

/// One level of a search: two threads take 64 vertices of the frontier at a time and go through them side by side. The
/// file holds 8-byte offsets, then 8-byte neighbours; who was visited is in ordinary memory.
inline std::vector<std::uint32_t> search_level(Trace& trace, const CompressedGraph& graph, std::uint32_t page_bytes,
                                               const std::vector<std::uint32_t>& frontier, std::vector<bool>& visited) {
  constexpr std::size_t threads = 2;
  constexpr std::size_t share = 64;
  std::vector<std::uint32_t> found;
  for (std::size_t start = 0; start < frontier.size(); start += threads * share) {
    for (std::size_t step = 0; step < threads * share; ++step) {
      const std::size_t position = start + step % threads * share + step / threads;
      if (position >= frontier.size()) {
        continue;
      }
      const std::uint32_t vertex = frontier[position];
      trace.touch(std::uint64_t{vertex} * 8 / page_bytes);
      for (std::uint64_t edge = graph.offsets[vertex]; edge < graph.offsets[vertex + std::size_t{1}]; ++edge) {
        trace.touch((graph.offsets.size() + edge) * 8 / page_bytes);
        const std::uint32_t neighbour = graph.neighbours[edge];
        if (!visited[neighbour]) {
          visited[neighbour] = true;
          found.push_back(neighbour);
        }
      }
    }
  }
  return found;
}

/// Level-synchronous breadth-first searches of an R-MAT graph whose vertices are numbered at random, from `roots`
/// vertices in turn. The frontier is visited in order of address (a bit map), or of discovery (a queue).
inline Trace breadth_first_trace(std::string name, unsigned scale, unsigned edge_factor, std::uint32_t page_bytes,
                                 std::uint32_t roots, FrontierOrder order, std::uint64_t seed) {
  Random random(seed);
  Trace trace{std::move(name), {}, 0};
  const CompressedGraph graph = make_graph(scale, edge_factor, random);
  for (std::uint32_t search = 0; search < roots; ++search) {
    std::uint32_t root = 0;
    do {
      root = static_cast<std::uint32_t>(below(random, std::uint64_t{1} << scale));
    } while (graph.offsets[root] == graph.offsets[root + std::size_t{1}]);
    std::vector<bool> visited(std::size_t{1} << scale, false);
    visited[root] = true;
    std::vector<std::uint32_t> frontier{root};
    while (!frontier.empty()) {
      frontier = search_level(trace, graph, page_bytes, frontier, visited);
      if (order == FrontierOrder::address) {
        std::sort(frontier.begin(), frontier.end());
      }
    }
  }
  return trace;
}

/// R-MAT edges appended to lists, one a vertex, of 8-byte neighbours; a full list moves to a new place of twice the
/// room.
inline Trace growing_lists_trace(std::string name, unsigned scale, std::uint32_t edges, std::uint32_t page_bytes,
                                 std::uint64_t seed) {
  struct List {
    std::uint64_t place = 0;
    std::uint64_t length = 0;
    std::uint64_t room = 0;
  };
  Random random(seed);
  Trace trace{std::move(name), {}, 0};
  std::vector<List> lists(std::size_t{1} << scale);
  std::uint64_t end = 0;
  for (std::uint32_t edge = 0; edge < edges; ++edge) {
    List& list = lists[recursive_matrix_edge(scale, random).first];
    if (list.length == list.room) {
      const std::uint64_t old_place = list.place;
      list.room = std::max<std::uint64_t>(2, list.room * 2);
      list.place = std::exchange(end, end + list.room);
      for (std::uint64_t copied = 0; copied < list.length; ++copied) {
        trace.touch((old_place + copied) * 8 / page_bytes);
        trace.touch((list.place + copied) * 8 / page_bytes);
      }
    }
    trace.touch((list.place + list.length) * 8 / page_bytes);
    ++list.length;
  }
  return trace;
}

/// Quicksort's touches: two streams from both ends towards where the pivot belongs (the middle half, at random), then
/// the parts, depth first.
inline void add_recursive(Trace& trace, std::uint64_t first, std::uint64_t end, Random& random) {
  if (end - first < 2) {
    return;
  }
  const std::uint64_t size = end - first;
  const std::uint64_t pivot = first + size / 4 + below(random, size / 2 + 1);
  std::uint64_t left = first;
  std::uint64_t right = end;
  while (left < pivot || right > pivot) {
    if (left < pivot) {
      trace.touch(left++);
    }
    if (right > pivot) {
      trace.touch(--right);
    }
  }
  add_recursive(trace, first, pivot, random);
  add_recursive(trace, std::max(pivot, first + 1), end, random);
}

/// One page number a line. Throws std::runtime_error that names file and line.
inline Trace read_trace(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    throw std::runtime_error("trace file " + path + " cannot be read: check the path and its permissions");
  }
  Trace trace{path, {}, 0};
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty() || line.size() > 9 || line.find_first_not_of("0123456789") != std::string::npos) {
      throw std::runtime_error("trace file " + path + ", line " + std::to_string(number) + ": \"" + line +
                               "\" is not a page number: write one number below 1000000000 a line");
    }
    trace.touch(std::stoul(line));
  }
  return trace;
}

}  // namespace tiermap::simulation
