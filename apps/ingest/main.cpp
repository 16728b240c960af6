// tiermap-ingest: puts a stream of edges into adjacency lists in a mapped file that may be larger than memory.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "command_line/program.hpp"
#include "config/size.hpp"
#include "edges/edge_source.hpp"
#include "ingest/adjacency_file.hpp"
#include "ingest/adjacency_lists.hpp"
#include "ingest/graph_store.hpp"
#include "ingest/list_check.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-ingest";
constexpr std::uint64_t default_page_size = std::uint64_t{4} << 10U;
constexpr std::uint32_t default_scale = 20;
constexpr std::uint32_t most_scale = 31;
constexpr std::uint64_t most_segments = std::uint64_t{1} << 20U;

/// The program's own options, as they are typed.
struct IngestOptions {
  std::string scale;
  std::string edge_factor = "16";
  std::string input;
  std::string segments;
  bool check = false;
};

std::uint64_t parse_edge_factor(const IngestOptions& ingest) {
  return parse_whole_number(ingest.edge_factor, "edge factor", 1, 1024);
}

std::optional<std::uint64_t> parse_segments(const IngestOptions& ingest) {
  if (ingest.segments.empty()) {
    return std::nullopt;
  }
  return parse_whole_number(ingest.segments, "segments", 1, most_segments);
}

/// From --scale, or the largest scale whose file surely has at most --bytes bytes.
std::uint32_t choose_scale(const WorkloadOptions& options, const IngestOptions& ingest) {
  if (!ingest.scale.empty()) {
    return static_cast<std::uint32_t>(parse_whole_number(ingest.scale, "scale", 1, most_scale));
  }
  if (!options.bytes.has_value()) {
    return default_scale;
  }
  const std::uint64_t edge_factor = parse_edge_factor(ingest);
  std::uint32_t scale = 1;
  while (scale < most_scale &&
         AdjacencyHeader::most_bytes(std::uint64_t{2} << scale, edge_factor << (scale + 1)) <= *options.bytes) {
    ++scale;
  }
  return scale;
}

/// What can be known to be wrong before anything is made or read.
void check_options(const WorkloadOptions& options, const IngestOptions& ingest) {
  parse_edge_factor(ingest);
  choose_scale(options, ingest);
  const std::optional<std::uint64_t> segments = parse_segments(ingest);
  if (!ingest.input.empty() && !ingest.scale.empty()) {
    throw OptionError("--scale makes edges and --input reads them: choose one of them");
  }
  if (!ingest.check) {
    if (backing_exists(options.file)) {
      throw OptionError(
          fmt::format("{} exists: name a new file, or compare the lists in it with --check", options.file));
    }
    return;
  }
  if (options.file.empty()) {
    throw OptionError("--check looks at lists that are there: name their file with --file");
  }
  if (segments.has_value()) {
    throw OptionError("--segments is for a store to be made, and --check looks at one that is there: leave it out");
  }
  if (!options.verify) {
    throw OptionError("--check compares lists, and --no-verify does not: choose one of them");
  }
}

std::unique_ptr<EdgeSource> make_source(const WorkloadOptions& options, const IngestOptions& ingest) {
  if (!ingest.input.empty()) {
    return make_text_source(ingest.input, false);
  }
  return make_rmat_source(choose_scale(options, ingest), parse_edge_factor(ingest), options.seed);
}

/// One run of the program: a stream, a system, and the file between them.
class IngestRun {
 public:
  IngestRun(const WorkloadOptions& options, const IngestOptions& ingest)
      : options_(options), ingest_(ingest), team_(options.threads), progress_("preparing", 0) {}

  Report run() {
    check_options(options_, ingest_);
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
    const std::uint64_t usable = read_machine_memory().usable_bytes();
    if (beside + pages > usable) {
      throw OptionError(fmt::format("{} vertices need {} of memory beside {} for pages, and {} is left: number them "
                                    "without gaps, or choose fewer, or a smaller --budget",
                                    source_->vertices(), readable(beside), readable(pages), readable(usable)),
                        ENOMEM);
    }
  }
  static std::string readable(std::uint64_t bytes) { return format_size_rounded(static_cast<double>(bytes)); }

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
    Backing backing = Backing::create(url, header.file_bytes);
    if (backing.size_bytes() < header.file_bytes) {
      throw OptionError(fmt::format("{} has {}, and the lists need {}: choose a larger one", url,
                                    readable(backing.size_bytes()), readable(header.file_bytes)));
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
      constexpr std::size_t at_once = 1024;
      for (; !edges.empty(); edges = edges.subspan(std::min(at_once, edges.size()))) {
        const std::span<const Edge> some = edges.first(std::min(at_once, edges.size()));
        builder->insert(some);
        progress_.add(some.size());
      }
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
    if (header.vertices != source_->vertices() || header.edges != source_->edges()) {
      throw OptionError(
          fmt::format("{} was made from {} edges between {} vertices, and this stream has {} between {}: "
                      "give the --scale, --edge-factor or --input that it was made with",
                      url, header.edges, header.vertices, source_->edges(), source_->vertices()));
    }
    check_memory(header.file_bytes);
    const ListSums sums = sum_lists(*source_, team_, progress_);
    backing.make_cold();
    report.fields["prepare_seconds"] = preparing.seconds();
    const StopWatch loading;
    const std::unique_ptr<MappedBytes> mapped = system_->map(backing, Access::read_only);
    report.fields["load_seconds"] = loading.seconds();
    Measurement measured(*system_);
    report.failure = compare(*mapped, header, sums);
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
    return find_wrong_list(reader, sums, header.vertices, team_, progress_);
  }

  void describe(const char* workload, const AdjacencyHeader& header, const Measurement& measured,
                Report& report) const {
    report.workload = workload;
    report.operations = header.edges;
    report.bytes = header.file_bytes;
    const double rate = static_cast<double>(header.edges) / measured.seconds;
    report.fields["vertices"] = header.vertices;
    report.fields["edges"] = header.edges;
    report.fields["blocks"] = header.blocks;
    report.fields["edges_per_second"] = rate;
    report.remark = fmt::format("{} vertices, {} edges, {:.0f} edges a second", header.vertices, header.edges, rate);
    report.describe(options_, *system_, measured);
  }

  const WorkloadOptions options_;
  const IngestOptions& ingest_;
  ThreadTeam team_;
  ProgressDisplay progress_;
  std::unique_ptr<MemorySystem> system_;
  std::unique_ptr<EdgeSource> source_;
};

void declare(CLI::App& app, IngestOptions& ingest) {
  app.add_option("--scale", ingest.scale, "R-MAT edges between 2^SCALE vertices (default: 20, or what --bytes allows)");
  app.add_option("--edge-factor", ingest.edge_factor, "R-MAT edges for each vertex (default: 16)");
  app.add_option("--input", ingest.input, "Read an edge list or a Matrix Market file instead");
  app.add_option("--segments", ingest.segments, "Into a sparse store of so many segment files, such as 32 or 1024");
  app.add_flag("--check", ingest.check, "Compare the lists in --file with the stream, and make nothing");
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  tiermap::Program program(
      tiermap::program_name,
      "Puts a stream of edges into adjacency lists in a mapped file, out of core, and checks them.",
      tiermap::default_page_size);
  tiermap::IngestOptions ingest;
  tiermap::declare(program.app(), ingest);
  return program.run(
      argc, argv, [&](const tiermap::WorkloadOptions& options) { return tiermap::IngestRun(options, ingest).run(); });
}
