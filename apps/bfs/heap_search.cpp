#include "bfs/heap_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "bfs/heap_graph.hpp"
#include "bfs/memory_need.hpp"
#include "bfs/roots.hpp"
#include "bfs/traversal.hpp"
#include "bfs/tree_check.hpp"
#include "command_line/memory_system.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// Vertices that a thread takes at a time.
constexpr std::uint64_t group_vertices = 4096;

class HeapSearch {
 public:
  HeapSearch(const WorkloadOptions& options, const BfsOptions& bfs)
      : options_(options), bfs_(bfs), team_(options.threads), progress_("preparing", 0) {
    traversal_options_.alternate = parse_scan(bfs.scan);
    traversal_options_.progress = [this](std::uint64_t arcs) { progress_.add(arcs); };
  }

  Report run() {
    system_ = MemorySystem::make(options_);
    const StopWatch loading;
    GraphCounts counts;
    containers_ = open_graph_heap(bfs_.heap, *system_, options_, counts);
    graph_ = std::make_unique<HeapGraph>(*containers_, counts, bfs_.heap);
    Report report;
    report.fields["load_seconds"] = loading.seconds();
    check_edge_factor(bfs_, counts.vertices, counts.edges, bfs_.heap);
    check_need();
    const std::vector<Vertex> roots =
        choose_roots(bfs_, graph_name(options_, bfs_), options_.seed, counts.vertices, counts.edges,
                     [this](Vertex vertex) { return !graph_->neighbours(vertex).empty(); });
    parents_.resize(counts.vertices);
    Measurement measured(*system_);
    measured.pause();
    search_all(roots, measured, report);
    describe(roots, report);
    report.describe(options_, *system_, measured);
    return report;
  }

 private:
  void check_need() const {
    MemoryNeed need{graph_->vertices(), graph_->arcs(), containers_->statistics().taken_bytes, false, {}};
    need.search = {graph_->vertices(), false, false, options_.threads};
    check_memory(need, graph_name(options_, bfs_), options_, *system_);
  }

  void search_all(const std::vector<Vertex>& roots, Measurement& measured, Report& report) {
    double slowness = 0;
    for (const Vertex root : roots) {
      progress_.restart("searching", graph_->arcs());
      const double before = measured.seconds;
      measured.resume();
      const Traversal traversal = traverse(*graph_, root, team_, traversal_options_, parents_);
      measured.pause();
      const std::uint64_t arcs = arcs_reached_by(*graph_, traversal, team_);
      report.operations += arcs;
      slowness += (measured.seconds - before) / static_cast<double>(std::max<std::uint64_t>(arcs, 1));
      report.fields["levels"].push_back(traversal.level_counts);
      report.fields["level_seconds"].push_back(traversal.level_seconds);
      check(traversal, root, arcs, report);
    }
    report.fields["teps"] = static_cast<double>(roots.size()) / slowness;
  }

  /// Every list is looked up once more, by its vertex.
  void check(const Traversal& traversal, Vertex root, std::uint64_t arcs, Report& report) {
    if (!options_.verify || !report.failure.empty()) {
      return;
    }
    progress_.restart("checking", 0);
    const TreeCheck tree = check_tree(traversal, root, false, [this](const ArcSink& sink) {
      for_each_vertex([&](Vertex vertex) { sink(vertex, graph_->neighbours(vertex)); });
    });
    report.failure = tree.failure;
    if (tree.failure.empty() && tree.arcs_reached != arcs) {
      report.failure = fmt::format("the tree has {} arcs, and then {}", arcs, tree.arcs_reached);
    }
    if (!report.failure.empty()) {
      report.failure = fmt::format("from root {}: {}", root, report.failure);
    }
  }

  template <typename Work>
  void for_each_vertex(const Work& work) {
    team_.for_each((graph_->vertices() + group_vertices - 1) / group_vertices, [&](std::uint64_t group) {
      const std::uint64_t end = std::min(graph_->vertices(), (group + 1) * group_vertices);
      for (std::uint64_t vertex = group * group_vertices; vertex < end; ++vertex) {
        work(static_cast<Vertex>(vertex));
      }
    });
  }

  void describe(const std::vector<Vertex>& roots, Report& report) const {
    report.workload = "bfs-heap";
    report.bytes = containers_->statistics().taken_bytes;
    if (options_.verify) {
      report.verified = report.failure.empty();
    }
    report.fields["roots"] = roots;
    report.fields["vertices"] = graph_->vertices();
    report.fields["edges"] = graph_->arcs();
    report.remark = fmt::format("{} vertices, {} edges; {} searches, {:.0f} edges a second in the harmonic mean",
                                graph_->vertices(), graph_->arcs(), roots.size(), report.fields["teps"].get<double>());
  }

  const WorkloadOptions options_;
  const BfsOptions& bfs_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  TraversalOptions traversal_options_;
  std::unique_ptr<MemorySystem> system_;
  std::unique_ptr<GraphContainers> containers_;  ///< After the system, whose pages it is on.
  std::unique_ptr<HeapGraph> graph_;
  std::vector<Vertex> parents_;
};

}  // namespace

void HeapGraph::refuse(std::uint64_t vertex) const {
  throw StoreError(
      EIO, fmt::format("{} has an edge from vertex {} to one that does not exist: make it anew", name_, vertex));
}

Report search_heap(const WorkloadOptions& options, const BfsOptions& bfs) {
  return HeapSearch(options, bfs).run();
}

}  // namespace tiermap
