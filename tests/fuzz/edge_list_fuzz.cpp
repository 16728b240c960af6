// Any text is a list of edges or a matrix, the same when it is read again, or is refused with one line.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "edges/edge_source.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// A file in memory, whose path the reader opens.
int file_with(const std::uint8_t* data, std::size_t size) {
  static const int descriptor = ::memfd_create("edges", MFD_CLOEXEC);
  require(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0);
  require(::pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
  return descriptor;
}

void read_edges(const std::string& path, bool both_ways) {
  static tiermap::ThreadTeam team(1);
  try {
    const auto source = tiermap::make_text_source(path, both_ways);
    require(source->edges() > 0 && source->vertices() <= tiermap::no_vertex);
    std::uint64_t edges = 0;
    source->for_each_piece(team, [&](std::uint64_t first, std::span<const tiermap::Edge> piece) {
      require(first == edges);
      edges += piece.size();
      for (const tiermap::Edge& edge : piece) {
        require(edge.source < source->vertices() && edge.target < source->vertices());
      }
    });
    require(edges == source->edges());
  } catch (const tiermap::OptionError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = "/proc/self/fd/" + std::to_string(file_with(data, size));
  read_edges(path, true);
  read_edges(path, false);
  return 0;
}
