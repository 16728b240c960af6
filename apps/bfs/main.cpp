// tiermap-bfs: breadth-first search of a graph in a mapped file that may be several times larger than memory.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bfs/bfs_options.hpp"
#include "bfs/csr_builder.hpp"
#include "bfs/csr_file.hpp"
#include "bfs/heap_search.hpp"
#include "bfs/memory_need.hpp"
#include "bfs/roots.hpp"
#include "bfs/search_state.hpp"
#include "bfs/traversal.hpp"
#include "bfs/tree_check.hpp"
#include "bfs/visitor_traversal.hpp"
#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "edges/edge_source.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-bfs";
constexpr std::uint64_t default_page_size = std::uint64_t{2} << 20U;
/// Containers are looked up at random.
constexpr std::uint64_t heap_page_size = 4096;

std::unique_ptr<EdgeSource> make_source(const WorkloadOptions& options, const BfsOptions& bfs) {
  if (!bfs.input.empty()) {
    return make_text_source(bfs.input, !bfs.directed);
  }
  const std::uint64_t edge_factor = parse_edge_factor(bfs);
  return make_rmat_source(chosen_scale(options, bfs, edge_factor), edge_factor, options.seed);
}

/// Read past the mapping, so that what is measured finds nothing in memory.
bool has_neighbours(Store& store, const CsrHeader& header, std::uint64_t vertex) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t at = header.offsets_at + vertex * sizeof(std::uint64_t);
  const std::uint64_t begin = at / page * page;
  AlignedBuffer buffer(2 * page);
  read_fully(store, buffer.data(), std::min(2 * page, header.file_bytes - begin), begin);
  const auto offsets = buffer.as_span<std::uint64_t>().subspan((at - begin) / sizeof(std::uint64_t), 2);
  return offsets[0] != offsets[1];
}

/// What all searches together came to.
struct Outcome {
  std::vector<double> seconds;
  std::vector<double> edges_per_second;
  std::vector<std::uint64_t> edges;
  std::vector<std::vector<std::uint64_t>> level_counts;
  std::vector<std::vector<double>> level_seconds;
  std::uint64_t arcs_looked_at = 0;
  std::string failure;
  double verify_seconds = 0;
};

/// One run of the program: a graph, how it is mapped, and what is done with it.
class BfsRun {
 public:
  BfsRun(const WorkloadOptions& options, const BfsOptions& bfs)
      : options_(options), bfs_(bfs), team_(options.threads), progress_("preparing", 0) {
    traversal_options_.direction = parse_direction(bfs.direction);
    traversal_options_.alternate = parse_scan(bfs.scan);
    traversal_options_.progress = [this](std::uint64_t arcs) { progress_.add(arcs); };
  }

  Report run() {
    check_options(options_, bfs_);
    system_ = MemorySystem::make(options_);
    if (!options_.file.empty()) {
      system_->check_url(options_.file);
    }
    Measurement building(*system_);
    Backing graph_file = open_or_build();
    building.pause();
    if (options_.keep) {
      // However the searches end, what took so long stays.
      graph_file.keep();
    }
    const CsrHeader header = read_csr_header(*graph_file.store());
    if (traversal_options_.direction != Direction::top_down && !header.is_undirected()) {
      throw OptionError("direction " + bfs_.direction +
                        " needs edges both ways, and the graph is directed: choose top-down");
    }
    // What was made here was checked before, when memory was not yet full of it.
    if (source_ == nullptr) {
      check_directions(bfs_, header.is_undirected(), graph_file.url());
      check_edge_factor(bfs_, header.vertices, header.input_edges, graph_file.url());
      check_bytes(options_, header, graph_file.url());
      check_need({header.vertices, header.arcs, header.file_bytes, bfs_.check_in_memory, {}});
    }
    if (bfs_.build_only) {
      return report_build(graph_file, header, building);
    }
    const std::vector<Vertex> roots =
        choose_roots(bfs_, graph_name(options_, bfs_), options_.seed, header.vertices, header.arcs,
                     [&](Vertex vertex) { return has_neighbours(*graph_file.store(), header, vertex); });
    graph_file.make_cold();
    const StopWatch loading;
    const std::unique_ptr<MappedBytes> mapped = system_->map(graph_file, Access::read_only);
    const double load_seconds = loading.seconds();
    traversal_options_.page_size_bytes = system_->page_size_bytes();
    traversal_options_.lookahead_bytes = lookahead_bytes();
    make_state(header.vertices);

    const CsrGraph graph(header, *mapped, graph_file.url());
    if (bfs_.warm) {
      progress_.restart("warming up", header.arcs);
      search(graph, roots.front());
    }
    Measurement measured(*system_);
    const Outcome outcome = search_all(graph, header, *graph_file.store(), roots, measured);
    Report report = report_searches(header, outcome);
    report.fields["prepare_seconds"] = building.seconds;
    report.fields["load_seconds"] = load_seconds;
    report.fields["roots"] = roots;
    report.describe(options_, *system_, measured);
    if (options_.keep) {
      report.fields["file"] = graph_file.url();
    }
    return report;
  }

 private:
  Backing open_or_build() {
    if (is_given_a_graph(options_, bfs_)) {
      return Backing::open(options_.file, false);
    }
    source_ = make_source(options_, bfs_);
    check_source();
    CsrBuildOptions build;
    build.url = options_.file.empty() ? scratch_path(program_name, "graph") : options_.file;
    build.scratch_path = is_plain_path(build.url) ? build.url + ".arcs" : scratch_path(program_name, "arcs");
    refuse_left_behind(build.scratch_path);
    build.undirected = !bfs_.directed;
    build.prefetch = options_.prefetch;
    announce_making();
    return build_csr(*source_, *system_, team_, build, progress_);
  }

  void check_source() const {
    parse_roots(bfs_, source_->vertices());
    const std::uint64_t arcs = source_->edges() * (bfs_.directed ? 1 : 2);
    const std::uint64_t graph_bytes = CsrHeader::for_graph(source_->vertices(), arcs, !bfs_.directed).file_bytes;
    // The arcs are mapped too, while they are sorted.
    const std::uint64_t mapped_bytes = std::max(graph_bytes, arcs * sizeof(std::uint64_t));
    check_need({source_->vertices(), arcs, mapped_bytes, bfs_.check_in_memory, {}});
  }

  void check_need(MemoryNeed need) const {
    need.search = search_need(need.vertices);
    check_memory(need, graph_name(options_, bfs_), options_, *system_);
  }

  SearchNeed search_need(std::uint64_t vertices) const {
    return {vertices, parse_traversal(bfs_.traversal), parse_state(bfs_.state), options_.threads};
  }

  /// A name that was mistyped should not look like a graph that is there.
  void announce_making() const {
    const bool asked_for = bfs_.build_only || options_.bytes.has_value() || !bfs_.scale.empty() || !bfs_.input.empty();
    if (!options_.file.empty() && !asked_for) {
      std::fputs(fmt::format("{}{}: {} is not there: making an R-MAT graph of scale {} (see --scale and --input)\n",
                             progress_.shown() ? "\r\033[K" : "", program_name, options_.file, default_scale)
                     .c_str(),
                 stderr);
    }
  }

  std::uint64_t lookahead_bytes() const {
    if (!options_.prefetch) {
      return 0;
    }
    if (!bfs_.lookahead.empty()) {
      return parse_size(bfs_.lookahead, "lookahead");
    }
    // Deep enough to keep the device busy, and far less than would push out what is about to be read.
    return std::clamp<std::uint64_t>(system_->budget_bytes() / 4, std::uint64_t{1} << 20U, std::uint64_t{64} << 20U);
  }

  void make_state(std::uint64_t vertices) {
    const bool by_visitors = parse_traversal(bfs_.traversal);
    state_ = parse_state(bfs_.state) ? std::make_unique<SearchState>(vertices, *system_, options_.threads)
                                     : std::make_unique<SearchState>(vertices, by_visitors);
  }

  Traversal search(const CsrGraph& graph, Vertex root) {
    return parse_traversal(bfs_.traversal) ? traverse_by_visitors(graph, root, team_, traversal_options_, *state_)
                                           : traverse(graph, root, team_, traversal_options_, state_->parents());
  }

  Outcome search_all(const CsrGraph& graph, const CsrHeader& header, Store& store, const std::vector<Vertex>& roots,
                     Measurement& measured) {
    Outcome outcome;
    std::vector<std::vector<Vertex>> reference;
    measured.pause();
    if (bfs_.check_in_memory) {
      progress_.restart("reading the graph into memory", 0);
      reference = source_ ? neighbours_of(*source_, header.is_undirected())
                          : neighbours_of(header.vertices, walk_store(store, header, team_));
    }
    for (const Vertex root : roots) {
      progress_.restart("searching", header.arcs);
      const double before = measured.seconds;
      measured.resume();
      const Traversal traversal = search(graph, root);
      outcome.arcs_looked_at += traversal.arcs_looked_at;
      measured.pause();
      const std::uint64_t arcs = arcs_reached_by(graph, traversal, team_);
      outcome.seconds.push_back(measured.seconds - before);
      outcome.edges.push_back(header.is_undirected() ? arcs / 2 : arcs);
      outcome.edges_per_second.push_back(static_cast<double>(outcome.edges.back()) / outcome.seconds.back());
      outcome.level_counts.push_back(traversal.level_counts);
      outcome.level_seconds.push_back(traversal.level_seconds);
      const StopWatch verifying;
      check(traversal, root, arcs, header, store, reference, outcome);
      outcome.verify_seconds += verifying.seconds();
    }
    return outcome;
  }

  void check(const Traversal& traversal, Vertex root, std::uint64_t arcs, const CsrHeader& header, Store& store,
             const std::vector<std::vector<Vertex>>& reference, Outcome& outcome) {
    if (!outcome.failure.empty()) {
      return;
    }
    progress_.restart("checking", 0);
    if (options_.verify) {
      const TreeCheck tree = check_tree(traversal, root, header.is_undirected(), walk_store(store, header, team_));
      outcome.failure = tree.failure;
      if (tree.failure.empty() && tree.arcs_reached != arcs) {
        outcome.failure =
            fmt::format("the mapped graph gives the tree {} arcs, and the file gives it {}", arcs, tree.arcs_reached);
      }
    }
    if (bfs_.check_in_memory && outcome.failure.empty() &&
        levels_of_tree(traversal.parents, root).levels != reference_levels(reference, root)) {
      outcome.failure = "the levels are not those of a plain search in memory";
    }
    if (!outcome.failure.empty()) {
      outcome.failure = fmt::format("from root {}: {}", root, outcome.failure);
    }
  }

  Report report_build(Backing& graph_file, const CsrHeader& header, const Measurement& building) const {
    graph_file.keep();
    Report report;
    report.fields["file"] = graph_file.url();
    report.workload = "bfs-build";
    report.operations = header.input_edges;
    describe_graph(report, header);
    report.describe(options_, *system_, building);
    return report;
  }

  static void describe_graph(Report& report, const CsrHeader& header) {
    report.bytes = header.file_bytes;
    report.fields["vertices"] = header.vertices;
    report.fields["edges"] = header.is_undirected() ? header.arcs / 2 : header.arcs;
    report.fields["input_edges"] = header.input_edges;
    report.fields["undirected"] = header.is_undirected();
    report.remark = fmt::format("{} vertices, {} edges", header.vertices, report.fields["edges"].get<std::uint64_t>());
  }

  Report report_searches(const CsrHeader& header, const Outcome& outcome) const {
    Report report;
    report.workload = "bfs";
    describe_graph(report, header);
    double slowness = 0;
    for (std::size_t search = 0; search < outcome.edges.size(); ++search) {
      report.operations += outcome.edges[search];
      slowness += 1 / outcome.edges_per_second[search];
    }
    if (options_.verify || bfs_.check_in_memory) {
      report.verified = outcome.failure.empty();
      report.failure = outcome.failure;
    }
    report.fields["traversal"] = bfs_.traversal;
    report.fields["state"] = bfs_.state;
    report.fields["arcs_looked_at"] = outcome.arcs_looked_at;
    report.fields["direction"] = bfs_.direction;
    report.fields["scan"] = bfs_.scan;
    report.fields["lookahead_bytes"] = traversal_options_.lookahead_bytes;
    report.fields["state_bytes"] = search_state_bytes(search_need(header.vertices));
    report.fields["mapped_state_bytes"] = state_->mapped_bytes();
    report.fields["teps"] = static_cast<double>(outcome.edges.size()) / slowness;
    report.remark += fmt::format("; {} searches, {:.0f} edges a second in the harmonic mean", outcome.edges.size(),
                                 report.fields["teps"].get<double>());
    report.fields["root_seconds"] = outcome.seconds;
    report.fields["root_teps"] = outcome.edges_per_second;
    report.fields["levels"] = outcome.level_counts;
    report.fields["level_seconds"] = outcome.level_seconds;
    report.fields["checked_in_memory"] = bfs_.check_in_memory;
    report.fields["verify_seconds"] = outcome.verify_seconds;
    return report;
  }

  const WorkloadOptions options_;
  const BfsOptions& bfs_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  TraversalOptions traversal_options_;
  std::unique_ptr<MemorySystem> system_;
  std::unique_ptr<EdgeSource> source_;
  std::unique_ptr<SearchState> state_;  ///< After the system, which maps it.
};

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(tiermap::program_name,
                           "Breadth-first search, out of core, of an R-MAT graph or one that is read from a file. A "
                           "graph file that is there already is searched as it is.",
                           tiermap::default_page_size);
  tiermap::BfsOptions bfs;
  tiermap::declare(program.app(), bfs);
  program.choose_default_page_size(
      [&bfs] { return bfs.heap.empty() ? tiermap::default_page_size : tiermap::heap_page_size; });
  return program.run(argc, argv, [&](const tiermap::WorkloadOptions& options) {
    if (!bfs.heap.empty()) {
      tiermap::check_heap_options(options, bfs);
      return tiermap::search_heap(options, bfs);
    }
    return tiermap::BfsRun(tiermap::with_graph(options, bfs), bfs).run();
  });
}
