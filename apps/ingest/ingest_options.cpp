#include "ingest/ingest_options.hpp"

#include <fmt/format.h>

#include <cerrno>

#include "command_line/backing.hpp"
#include "command_line/choice.hpp"
#include "config/size.hpp"
#include "ingest/adjacency_file.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t default_scale = 20;
constexpr std::uint32_t most_scale = 31;
constexpr std::uint64_t most_segments = std::uint64_t{1} << 20U;

std::uint64_t parse_edge_factor(const IngestOptions& ingest) {
  constexpr std::uint64_t default_edge_factor = 16;
  return whole_number_or(ingest.edge_factor, "edge factor", 1, 1024, default_edge_factor);
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

constexpr Names<bool, 2> switches = {{{"on", true}, {"off", false}}};

/// What goes with --heap, or only with it.
void check_heap_options(const WorkloadOptions& options, const IngestOptions& ingest) {
  if (!ingest.heap) {
    if (!ingest.checkpoints.empty() || !ingest.checkpoint_every.empty()) {
      throw OptionError("checkpoints are a heap's: give --heap too, or leave out --checkpoints and --checkpoint-every");
    }
    return;
  }
  const bool checkpoints = keeps_checkpoints(ingest) && options.system == System::tiermap && !ingest.check;
  if (parse_checkpoint_every(ingest) != 0 && !checkpoints) {
    throw OptionError(
        "--checkpoint-every has checkpoints taken, and there are none with --checkpoints off, with "
        "--check, or by another system than tiermap: leave it out");
  }
  if (!ingest.segments.empty()) {
    throw OptionError("--segments divides a store of lists, and a heap has files of its own: leave it out");
  }
  if (!options.file.empty() && !is_plain_path(options.file)) {
    throw OptionError(fmt::format("{} is a URL, and a heap is a directory: give its path", options.file));
  }
  if (options.system == System::memory && (ingest.check || options.keep || !options.file.empty())) {
    throw OptionError(
        "--system memory with --heap is containers in plain memory, which are not kept: leave out "
        "--file, --keep and --check");
  }
}

}  // namespace

std::optional<std::uint64_t> parse_segments(const IngestOptions& ingest) {
  if (ingest.segments.empty()) {
    return std::nullopt;
  }
  return parse_whole_number(ingest.segments, "segments", 1, most_segments);
}

bool keeps_checkpoints(const IngestOptions& ingest) {
  return ingest.checkpoints.empty() || choose(switches, ingest.checkpoints, "--checkpoints");
}

std::uint64_t parse_checkpoint_every(const IngestOptions& ingest) {
  constexpr std::uint64_t most_edges = std::uint64_t{1} << 60U;
  return ingest.checkpoint_every.empty()
             ? 0
             : parse_whole_number(ingest.checkpoint_every, "number of edges between checkpoints", 1, most_edges);
}

void check_options(const WorkloadOptions& options, const IngestOptions& ingest) {
  parse_edge_factor(ingest);
  choose_scale(options, ingest);
  const std::optional<std::uint64_t> segments = parse_segments(ingest);
  check_heap_options(options, ingest);
  if (!ingest.input.empty() && !ingest.scale.empty()) {
    throw OptionError("--scale makes edges and --input reads them: choose one of them");
  }
  if (!ingest.input.empty() && !ingest.edge_factor.empty()) {
    throw OptionError("--edge-factor makes edges and --input reads them: choose one of them");
  }
  if (options.bytes.has_value() && !(ingest.input.empty() && ingest.scale.empty())) {
    throw OptionError("--bytes chooses how many edges are made, as --scale says and --input knows: choose one of them");
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

void require_memory(const IngestOptions& ingest, std::uint64_t vertices, std::uint64_t beside_bytes,
                    std::uint64_t page_bytes) {
  const std::uint64_t usable = read_machine_memory().usable_bytes();
  if (beside_bytes + page_bytes > usable) {
    throw OptionError(
        fmt::format("{}: {} vertices need {} of memory beside {} for pages, and {} is left: number them "
                    "without gaps, or choose fewer, or a smaller --budget",
                    ingest.input.empty() ? "the stream" : ingest.input, vertices, format_size_rounded(beside_bytes),
                    format_size_rounded(page_bytes), format_size_rounded(usable)),
        ENOMEM);
  }
}

}  // namespace tiermap
