// Whatever a graph file holds, it is refused with a StoreError or is within its bounds: the header, and then where each
// vertex's neighbours begin, which is checked as it is used.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bfs/csr_file.hpp"
#include "tiermap/error.hpp"

namespace {

using tiermap::CsrHeader;

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

constexpr std::size_t header_bytes = sizeof(CsrHeader);

/// The input as a file: its first bytes are the header, the others what follows the header's page.
class GraphFile final : public tiermap::Store {
 public:
  GraphFile(const std::uint8_t* data, std::size_t size) {
    const std::size_t head = std::min(size, header_bytes);
    words_.resize(size == 0 ? 0 : (CsrHeader::bytes + size - head + 7) / 8);
    if (size > 0) {
      std::memcpy(words_.data(), data, head);
      std::memcpy(bytes() + CsrHeader::bytes, data + head, size - head);
    }
  }
  std::uint64_t size_bytes() const override { return words_.size() * 8; }
  std::int64_t read(void* buffer, std::size_t count, std::uint64_t offset) override {
    const std::uint64_t left = size_bytes() - std::min(size_bytes(), offset);
    const std::size_t got = std::min<std::uint64_t>(count, left);
    std::memcpy(buffer, bytes() + offset, got);
    return static_cast<std::int64_t>(got);
  }
  std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(words_.data()); }
  /// Puts the checksum right, which no chance would find.
  void repair() {
    CsrHeader header;
    std::memcpy(&header, bytes(), sizeof(header));
    header.checksum = header.computed_checksum();
    std::memcpy(bytes(), &header, sizeof(header));
  }

 private:
  std::vector<std::uint64_t> words_;
};

class MappedGraph final : public tiermap::MappedBytes {
 public:
  explicit MappedGraph(GraphFile& file) {
    data_ = file.bytes();
    size_ = file.size_bytes();
  }
  void prefetch(std::span<const tiermap::ByteRange>) override {}
  void advise(tiermap::Advice, tiermap::ByteRange) override {}
  void flush(tiermap::ByteRange) override {}
  void sync() override {}
  void save() override {}
};

void read_graph(GraphFile& file) {
  try {
    const CsrHeader header = tiermap::read_csr_header(file);
    require(header.file_bytes <= file.size_bytes());
    require(header.vertices < (header.targets_at - header.offsets_at) / sizeof(std::uint64_t));
    MappedGraph mapped(file);
    const tiermap::CsrGraph graph(header, mapped);
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
  GraphFile file(data, size);
  read_graph(file);
  if (size > 0) {
    file.repair();
    read_graph(file);
  }
  return 0;
}
