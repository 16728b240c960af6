// What TIERMAP_TRACE recorded, as the simulation takes it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "replay/access_trace.hpp"

namespace tiermap::simulation {

struct RecordedTrace {
  Trace trace;
  std::uint64_t page_bytes = 0;         ///< Of every page of `trace`.
  std::uint64_t recorded_accesses = 0;  ///< Those of `trace`, and repeats that it leaves out.
  std::uint64_t lost = 0;               ///< Records that are missing.
  std::uint32_t regions = 0;            ///< That were accessed.
  std::uint64_t budget_bytes = 0;       ///< Of the cache when recording began.
  std::string policy;                   ///< That it was recorded with.
  bool complete = false;                ///< Whether the cache ended before the process did.
};

/// Reads a trace, in pages of `page_bytes` (0: the largest of the regions that were accessed). Discards of what is but
/// a part of such a page are passed over. Throws OptionError, one line, if it is no trace, holds no access, or has
/// larger pages.
RecordedTrace read_recorded_trace(const std::string& path, std::uint64_t page_bytes);

/// The accesses as tiermap-random-io --trace reads them, a line each: blocks of one page, the regions one behind the
/// other.
void print_accesses(const std::string& path, std::uint64_t page_bytes,
                    const std::function<void(const std::string& line)>& print);

}  // namespace tiermap::simulation
