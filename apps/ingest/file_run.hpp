// Lists in a file or a sparse store.
#pragma once

#include "command_line/report.hpp"
#include "ingest/ingest_options.hpp"

namespace tiermap {

/// Makes the lists, or with --check looks at those that are there. The options have been checked.
Report run_into_file(const WorkloadOptions& options, const IngestOptions& ingest);

}  // namespace tiermap
