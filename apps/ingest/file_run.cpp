#include "ingest/file_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "config/size.hpp"
#include "edges/edge_groups.hpp"
#include "ingest/adjacency_file.hpp"
#include "ingest/adjacency_lists.hpp"
#include "ingest/graph_store.hpp"
#include "ingest/list_check.hpp"
#include "ingest/stream_report.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// One run: a stream, a system, and the file between them.
class FileRun {
 public:
  FileRun(const WorkloadOptions& options, const IngestOptions& ingest)
      : options_(options), ingest_(ingest), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    const std::string url = choose_store(options_.file, parse_segments(ingest_));
    system_ = MemorySystem::make(options_);
    system_->check_url(url);
    source_ = make_source(options_, ingest_);
    check_memory(0);
    return ingest_.check ? check_graph(url) : make_graph(url);
  }

 private:
  /// Memory for each vertex while edges are counted, or compared, and for the pages of a file of so many bytes.
  void check_memory(std::uint64_t file_bytes) const {
    const std::uint64_t each = options_.verify ? sizeof(ListSum) : sizeof(std::uint64_t);
    const std::uint64_t beside = source_->vertices() * each;
    // The page cache, which is what mmap takes, gives way to what is needed.
    const std::uint64_t pages = options_.system == System::tiermap  ? std::min(system_->budget_bytes(), file_bytes)
                                : options_.system == System::memory ? file_bytes
                                                                    : 0;
    require_memory(ingest_, source_->vertices(), beside, pages);
  }

  Report make_graph(std::string url) {
    Report report;
    const StopWatch preparing;
    const AdjacencyHeader header =
        AdjacencyHeader::for_graph(source_->vertices(), source_->edges(), count_blocks(*source_, team_, progress_));
    check_memory(header.file_bytes);
    if (const auto segments = parse_segments(ingest_); segments.has_value()) {
      const std::uint64_t segment = segment_bytes_for(header.file_bytes, *segments);
      url = with_segment_bytes(url, segment);
      report.fields["segments"] = (header.file_bytes + segment - 1) / segment;
      report.fields["segment_bytes"] = segment;
    }
    Backing backing = Backing::create_unfinished(url, header.file_bytes);
    if (backing.size_bytes() < header.file_bytes) {
      throw OptionError(fmt::format("{} has {}, and the lists need {}: choose a larger one", url,
                                    format_size_rounded(backing.size_bytes()), format_size_rounded(header.file_bytes)));
    }
    report.fields["prepare_seconds"] = preparing.seconds();
    const StopWatch loading;
    std::unique_ptr<MappedBytes> mapped = system_->map(backing, Access::read_write);
    report.fields["load_seconds"] = loading.seconds();

    Measurement measured(*system_);
    insert_edges(*mapped, header, report);
    measured.pause();
    if (options_.keep) {
      mapped->save();
    }
    if (options_.verify) {
      const StopWatch verifying;
      const ListSums sums = sum_lists(*source_, team_, progress_);
      // What is only in memory is compared there, all else where a reader finds it.
      if (options_.system != System::memory) {
        mapped.reset();
        backing.reopen_read_only();
        backing.make_cold();
        mapped = system_->map(backing, Access::read_only);
        check_header(header, read_adjacency_header(*backing.store()));
      }
      report.failure = compare(*mapped, header, sums);
      report.verified = report.failure.empty();
      report.fields["verify_seconds"] = verifying.seconds();
    }
    describe("ingest", header, measured, report);
    if (options_.keep) {
      mapped.reset();
      backing.finish();
      report.fields["file"] = backing.url();
      backing.keep();
    }
    return report;
  }

  /// Until everything is durable.
  void insert_edges(MappedBytes& mapped, const AdjacencyHeader& header, Report& report) {
    const StopWatch inserting;
    progress_.restart("inserting", header.edges);
    const auto builder =
        std::make_unique<AdjacencyBuilder>(std::span(mapped.data(), static_cast<std::size_t>(mapped.size())), header);
    source_->for_each_piece(team_, [&](std::uint64_t, std::span<const Edge> edges) {
      // By ranges of vertices: their records lie together, and so do the blocks that one piece makes for them.
      constexpr std::uint64_t ranges = 1024;
      const std::uint64_t vertices = header.vertices;
      const EdgeGroups groups(edges, ranges, [vertices](const Edge& edge) { return edge.source * ranges / vertices; });
      builder->insert(groups.all());
      progress_.add(edges.size());
    });
    report.fields["insert_seconds"] = inserting.seconds();
    const StopWatch writing;
    progress_.restart("writing back", 0);
    mapped.sync();
    // Only now: a file that has a header has all that it speaks of, whenever the machine stops.
    builder->finish();
    mapped.sync();
    report.fields["sync_seconds"] = writing.seconds();
  }

  Report check_graph(const std::string& url) {
    Report report;
    const StopWatch preparing;
    Backing backing = Backing::open(url, false);
    const AdjacencyHeader header = read_adjacency_header(*backing.store());
    require_made_from(*source_, url, header.vertices, header.edges);
    check_memory(header.file_bytes);
    const ListSums sums = sum_lists(*source_, team_, progress_);
    backing.make_cold();
    report.fields["prepare_seconds"] = preparing.seconds();
    const StopWatch loading;
    const std::unique_ptr<MappedBytes> mapped = system_->map(backing, Access::read_only);
    report.fields["load_seconds"] = loading.seconds();
    Measurement measured(*system_);
    report.failure = name_wrong_lists(url, compare(*mapped, header, sums));
    measured.pause();
    report.verified = report.failure.empty();
    describe("ingest-check", header, measured, report);
    return report;
  }

  static void check_header(const AdjacencyHeader& written, const AdjacencyHeader& read) {
    if (read.vertices != written.vertices || read.edges != written.edges || read.file_bytes != written.file_bytes) {
      throw StoreError(EIO, fmt::format("the header on the store speaks of {} edges, and {} were inserted: look at the "
                                        "disk",
                                        read.edges, written.edges));
    }
  }

  std::string compare(const MappedBytes& mapped, const AdjacencyHeader& header, const ListSums& sums) {
    const AdjacencyReader reader(std::span(mapped.data(), static_cast<std::size_t>(mapped.size())), header);
    return find_wrong_list([&](Vertex vertex) { return reader.follow(vertex); }, sums, header.vertices, team_,
                           progress_);
  }

  void describe(const char* workload, const AdjacencyHeader& header, const Measurement& measured,
                Report& report) const {
    describe_stream(workload, *source_, measured, report);
    report.bytes = header.file_bytes;
    report.fields["blocks"] = header.blocks;
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

Report run_into_file(const WorkloadOptions& options, const IngestOptions& ingest) {
  return FileRun(options, ingest).run();
}

}  // namespace tiermap
