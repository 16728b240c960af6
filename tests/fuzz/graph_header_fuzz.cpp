// Whatever a graph file holds, it is refused with a StoreError or is within its bounds: the header, and then where each
// vertex's neighbours begin, which is checked as it is used.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "bfs/csr_file.hpp"
#include "file_in_memory.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::CsrHeader;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

/// Puts the checksum right, which no chance would find.
void repair(tiermap::FileInMemory& file) {
  CsrHeader header;
  std::memcpy(&header, file.bytes(), sizeof(header));
  header.checksum = header.computed_checksum();
  std::memcpy(file.bytes(), &header, sizeof(header));
}

void read_graph(tiermap::FileInMemory& file) {
  try {
    const CsrHeader header = tiermap::read_csr_header(file);
    require(header.file_bytes <= file.size_bytes());
    require(header.vertices < (header.targets_at - header.offsets_at) / sizeof(std::uint64_t));
    tiermap::MappedFileInMemory mapped(file);
    const tiermap::CsrGraph graph(header, mapped, "a graph");
    for (std::uint64_t vertex = 0; vertex < graph.vertices(); ++vertex) {
      for (const tiermap::Vertex& neighbour : graph.neighbours(vertex)) {
        require(reinterpret_cast<const std::byte*>(&neighbour + 1) <= mapped.data() + mapped.size());
      }
    }
  } catch (const tiermap::StoreError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tiermap::FileInMemory file(data, size, sizeof(CsrHeader), CsrHeader::bytes);
  read_graph(file);
  if (size > 0) {
    repair(file);
    read_graph(file);
  }
  return 0;
}
