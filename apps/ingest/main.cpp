// tiermap-ingest: puts a stream of edges into adjacency lists in a mapped file, or in a persistent heap, that may be
// larger than memory.
#include "command_line/program.hpp"
#include "ingest/file_run.hpp"
#include "ingest/heap_run.hpp"
#include "ingest/ingest_options.hpp"

namespace tiermap {
namespace {

constexpr const char* program_name = "tiermap-ingest";
constexpr std::uint64_t default_page_size = std::uint64_t{4} << 10U;

void declare(CLI::App& app, IngestOptions& ingest) {
  app.add_option("--scale", ingest.scale, "R-MAT edges between 2^SCALE vertices (default: 20, or what --bytes allows)");
  app.add_option("--edge-factor", ingest.edge_factor, "R-MAT edges for each vertex (default: 16)");
  app.add_option("--input", ingest.input, "Read an edge list or a Matrix Market file instead");
  app.add_option("--segments", ingest.segments, "Into a sparse store of so many segment files, such as 32 or 1024");
  app.add_flag(
      "--heap", ingest.heap,
      "Into a persistent heap instead, a new directory at --file: hash maps from a vertex to the vector of its "
      "neighbours");
  app.add_option("--checkpoints", ingest.checkpoints,
                 "With --heap: on, so that a crash leads back to the last checkpoint, or off: what leaves memory is "
                 "written once");
  app.add_option("--checkpoint-every", ingest.checkpoint_every,
                 "With --heap: a checkpoint each time so many more edges are in, not only at the end");
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
  return program.run(argc, argv, [&](const tiermap::WorkloadOptions& options) {
    tiermap::check_options(options, ingest);
    return ingest.heap ? tiermap::run_into_heap(options, ingest) : tiermap::run_into_file(options, ingest);
  });
}
