// tiermap-ingest's own options: what they may be, and the stream of edges that they speak of.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "command_line/options.hpp"
#include "edges/edge_source.hpp"

namespace tiermap {

/// The program's own options, as they are typed.
struct IngestOptions {
  std::string scale;
  std::string edge_factor;
  std::string input;
  std::string segments;
  bool check = false;
  bool heap = false;
  std::string checkpoints;  ///< On or off; empty: on.
  std::string checkpoint_every;
};

/// Nothing if not given. Throws OptionError.
std::optional<std::uint64_t> parse_segments(const IngestOptions& ingest);

/// What --checkpoints says. Throws OptionError.
bool keeps_checkpoints(const IngestOptions& ingest);

/// How many edges lie between two checkpoints; 0: all of them. Throws OptionError.
std::uint64_t parse_checkpoint_every(const IngestOptions& ingest);

/// Refuses what can be known to be wrong before anything is made or read. Throws OptionError.
void check_options(const WorkloadOptions& options, const IngestOptions& ingest);

std::unique_ptr<EdgeSource> make_source(const WorkloadOptions& options, const IngestOptions& ingest);

/// Throws OptionError, naming --budget, unless there is memory for `beside_bytes` and `page_bytes`.
void require_memory(const IngestOptions& ingest, std::uint64_t vertices, std::uint64_t beside_bytes,
                    std::uint64_t page_bytes);

}  // namespace tiermap
