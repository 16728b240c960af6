// Lists as containers in a persistent heap, or with --system memory in what malloc gives.
#pragma once

#include "command_line/report.hpp"
#include "ingest/ingest_options.hpp"

namespace tiermap {

/// Makes the lists, or with --check looks at those that are there. The options have been checked.
Report run_into_heap(const WorkloadOptions& options, const IngestOptions& ingest);

}  // namespace tiermap
