#include "ingest/list_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

namespace tiermap {
namespace {

/// Vertices that a thread takes at a time.
constexpr std::uint64_t group_vertices = 4096;

std::uint64_t groups_of(std::uint64_t vertices) {
  return (vertices + group_vertices - 1) / group_vertices;
}

/// What is wrong with one list; empty if nothing is.
std::string explain_difference(Vertex vertex, const std::optional<ListSum>& found, const ListSum& wanted) {
  if (!found.has_value()) {
    return fmt::format("the list of vertex {} is damaged", vertex);
  }
  if (found->degree != wanted.degree) {
    return fmt::format("vertex {} has {} neighbours, and the stream gave it {}", vertex, found->degree, wanted.degree);
  }
  if (found->sum != wanted.sum) {
    return fmt::format("vertex {} has {} neighbours, as it should, but not the ones that the stream gave it", vertex,
                       found->degree);
  }
  return {};
}

}  // namespace

BlockCounts count_blocks(const EdgeSource& source, ThreadTeam& team, ProgressDisplay& progress) {
  std::vector<std::uint64_t> degrees(source.vertices());
  progress.restart("counting", source.edges());
  source.for_each_piece(team, [&](std::uint64_t, std::span<const Edge> edges) {
    for (const Edge& edge : edges) {
      std::atomic_ref(degrees[edge.source]).fetch_add(1, std::memory_order_relaxed);
    }
    progress.add(edges.size());
  });
  BlockCounts all{};
  std::mutex mutex;
  team.for_each(groups_of(degrees.size()), [&](std::uint64_t group) {
    BlockCounts counts{};
    const std::uint64_t end = std::min<std::uint64_t>(degrees.size(), (group + 1) * group_vertices);
    for (std::uint64_t vertex = group * group_vertices; vertex < end; ++vertex) {
      add_blocks(degrees[vertex], counts);
    }
    const std::lock_guard lock(mutex);
    std::transform(all.begin(), all.end(), counts.begin(), all.begin(), std::plus<>());
  });
  return all;
}

ListSums sum_lists(const EdgeSource& source, ThreadTeam& team, ProgressDisplay& progress) {
  ListSums sums(source.vertices());
  progress.restart("going through the edges again", source.edges());
  source.for_each_piece(team, [&](std::uint64_t, std::span<const Edge> edges) {
    sums.add(edges);
    progress.add(edges.size());
  });
  return sums;
}

std::string find_wrong_list(const std::function<std::optional<ListSum>(Vertex)>& follow, const ListSums& sums,
                            std::uint64_t vertices, ThreadTeam& team, ProgressDisplay& progress) {
  progress.restart("checking lists", vertices);
  std::atomic<bool> found{false};
  std::mutex mutex;
  std::string failure;
  team.for_each(groups_of(vertices), [&](std::uint64_t group) {
    const std::uint64_t end = std::min(vertices, (group + 1) * group_vertices);
    for (std::uint64_t index = group * group_vertices; index < end && !found; ++index) {
      const auto vertex = static_cast<Vertex>(index);
      const std::string difference = explain_difference(vertex, follow(vertex), sums.of(vertex));
      if (!difference.empty() && !found.exchange(true)) {
        const std::lock_guard lock(mutex);
        failure = difference;
      }
    }
    progress.add(group_vertices);
  });
  return failure;
}

std::string name_wrong_lists(const std::string& place, const std::string& failure) {
  return failure.empty() ? std::string()
                         : fmt::format("{}: {}: make it again, or name the stream that it was made of", place, failure);
}

}  // namespace tiermap
