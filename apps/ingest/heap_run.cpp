#include "ingest/heap_run.hpp"

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/interruption.hpp"
#include "graph_heap/graph_containers.hpp"
#include "heap/disk_use.hpp"
#include "ingest/list_check.hpp"
#include "ingest/regular_checkpoints.hpp"
#include "ingest/stream_report.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {
namespace {

/// Memory that containers surely do not exceed, the arrays included that a growing vector leaves: a heap's capacity is
/// address space alone.
std::uint64_t most_bytes(const EdgeSource& source) {
  return (std::uint64_t{1} << 30U) + 512 * source.vertices() + 64 * source.edges();
}
/// Memory that they will take about.
std::uint64_t expected_bytes(const EdgeSource& source) {
  return 128 * source.vertices() + 6 * source.edges();
}

class HeapRun {
 public:
  HeapRun(const WorkloadOptions& options, const IngestOptions& ingest)
      : options_(options), ingest_(ingest), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    system_ = MemorySystem::make(options_);
    source_ = make_source(options_, ingest_);
    check_memory();
    return ingest_.check ? check_graph() : make_graph();
  }

 private:
  bool in_heap() const noexcept { return options_.system != System::memory; }

  void check_memory() const {
    const std::uint64_t beside = options_.verify ? source_->vertices() * sizeof(ListSum) : 0;
    // The page cache, which is what mmap takes, gives way to what is needed.
    const std::uint64_t pages = options_.system == System::tiermap
                                    ? std::min(system_->budget_bytes(), expected_bytes(*source_))
                                : in_heap() ? 0
                                            : expected_bytes(*source_);
    require_memory(ingest_, source_->vertices(), beside, pages);
  }

  Report make_graph() {
    Report report;
    const StopWatch loading;
    const std::string final_path = options_.file.empty() ? scratch_path("tiermap-ingest", "heap") : options_.file;
    const std::string path = partial_path(final_path);
    MadePath made;
    std::unique_ptr<GraphContainers> graph = make_containers(path, made);
    report.fields["load_seconds"] = loading.seconds();

    Measurement measured(*system_);
    insert_edges(*graph, report);
    measured.pause();
    if (in_heap()) {
      report.bytes = report.fields["taken_bytes"].get<std::uint64_t>();
      report.fields["disk_bytes"] = bytes_on_disk(path);
    } else {
      report.bytes = graph->asked().bytes;
    }
    if (options_.verify) {
      const StopWatch verifying;
      const ListSums sums = sum_lists(*source_, team_, progress_);
      if (in_heap()) {
        graph.reset();
        graph = open_graph(path);
      }
      compare(*graph, sums, report);
      report.fields["verify_seconds"] = verifying.seconds();
    }
    describe("ingest-heap", measured, report);
    if (options_.keep) {
      graph.reset();
      made.rename_to(final_path);
      made.keep();
      report.fields["file"] = final_path;
    }
    return report;
  }

  std::unique_ptr<GraphContainers> make_containers(const std::string& path, MadePath& made) {
    if (!in_heap()) {
      return make_graph_in_memory();
    }
    refuse_left_behind(path);
    const GraphHeapOptions heap{most_bytes(*source_), keeps_checkpoints(ingest_)};
    auto graph = make_uninterrupted(path, [&] { return make_graph_heap(path, *system_, options_, heap); });
    made = MadePath(path);
    return graph;
  }

  /// Until everything is durable, in a heap that is closed.
  void insert_edges(GraphContainers& graph, Report& report) {
    const StopWatch inserting;
    progress_.restart("inserting", source_->edges());
    RegularCheckpoints checkpoints(graph, parse_checkpoint_every(ingest_));
    source_->for_each_piece(team_, [&](std::uint64_t, std::span<const Edge> edges) {
      checkpoints.insert(edges);
      progress_.add(edges.size());
    });
    report.fields["insert_seconds"] = inserting.seconds();
    if (in_heap()) {
      const HeapStatistics statistics = graph.statistics();
      report.fields["live_blocks"] = statistics.live_blocks;
      report.fields["live_bytes"] = statistics.live_bytes;
      report.fields["taken_bytes"] = statistics.taken_bytes;
    }
    if (checkpoints.count() != 0) {
      report.fields["checkpoints"] = checkpoints.count();
      report.fields["checkpoint_seconds"] = checkpoints.seconds();
    }
    const StopWatch writing;
    progress_.restart("closing the heap", 0);
    graph.close({source_->vertices(), source_->edges()});
    report.fields["sync_seconds"] = writing.seconds();
  }

  std::unique_ptr<GraphContainers> open_graph(const std::string& path) {
    GraphCounts counts;
    std::unique_ptr<GraphContainers> graph = open_graph_heap(path, *system_, options_, counts);
    require_made_from(*source_, path, counts.vertices, counts.edges);
    return graph;
  }

  Report check_graph() {
    Report report;
    const StopWatch loading;
    const std::unique_ptr<GraphContainers> graph = open_graph(options_.file);
    report.fields["load_seconds"] = loading.seconds();
    const ListSums sums = sum_lists(*source_, team_, progress_);
    report.bytes = graph->statistics().taken_bytes;
    Measurement measured(*system_);
    compare(*graph, sums, report);
    measured.pause();
    report.failure = name_wrong_lists(options_.file, report.failure);
    describe("ingest-heap-check", measured, report);
    return report;
  }

  void compare(const GraphContainers& graph, const ListSums& sums, Report& report) {
    report.failure = find_wrong_list([&](Vertex vertex) { return ListSum::of(graph.neighbours(vertex)); }, sums,
                                     source_->vertices(), team_, progress_);
    report.verified = report.failure.empty();
    const AskedBytes asked = graph.asked();
    report.fields["asked_bytes"] = asked.bytes;
    report.fields["asked_blocks"] = asked.blocks;
  }

  void describe(const char* workload, const Measurement& measured, Report& report) const {
    describe_stream(workload, *source_, measured, report);
    report.describe(options_, *system_, measured);
  }

  const WorkloadOptions options_;
  const IngestOptions& ingest_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::unique_ptr<EdgeSource> source_;
};

}  // namespace

Report run_into_heap(const WorkloadOptions& options, const IngestOptions& ingest) {
  return HeapRun(options, ingest).run();
}

}  // namespace tiermap
