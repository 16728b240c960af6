// What every run says of the stream of edges that it put somewhere, or found there.
#pragma once

#include <cstdint>
#include <string>

#include "command_line/memory_system.hpp"
#include "command_line/report.hpp"
#include "edges/edge_source.hpp"

namespace tiermap {

/// Throws OptionError if the graph at `path` was made from a stream of other counts.
void require_made_from(const EdgeSource& source, const std::string& path, std::uint64_t vertices, std::uint64_t edges);

/// Workload, counts and rate.
void describe_stream(const std::string& workload, const EdgeSource& source, const Measurement& measured,
                     Report& report);

}  // namespace tiermap
