// A graph in plain memory, for parts of tiermap-bfs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bfs/csr_file.hpp"
#include "command_line/memory_system.hpp"
#include "edges/edge_source.hpp"

namespace tiermap::test {

using Neighbours = std::vector<std::vector<Vertex>>;

/// Tells of each prefetch.
class GraphInMemory : public MappedBytes {
 public:
  explicit GraphInMemory(const Neighbours& neighbours) {
    std::uint64_t arcs = 0;
    for (const std::vector<Vertex>& list : neighbours) {
      arcs += list.size();
    }
    header_ = CsrHeader::for_graph(neighbours.size(), arcs, false);
    words_.resize(header_.file_bytes / sizeof(std::uint64_t) + 1);
    data_ = reinterpret_cast<std::byte*>(words_.data());
    size_ = header_.file_bytes;
    auto* const offsets = reinterpret_cast<std::uint64_t*>(data_ + header_.offsets_at);
    auto* const targets = reinterpret_cast<Vertex*>(data_ + header_.targets_at);
    for (std::size_t vertex = 0; vertex < neighbours.size(); ++vertex) {
      offsets[vertex + 1] = offsets[vertex] + neighbours[vertex].size();
      std::ranges::copy(neighbours[vertex], targets + offsets[vertex]);
    }
  }

  CsrGraph graph() { return {header_, *this, "the graph"}; }

  void prefetch(std::span<const ByteRange> ranges) override {
    if (told) {
      told(ranges);
    }
  }
  void advise(Advice, ByteRange) override {}
  void flush(ByteRange) override {}
  void sync() override {}
  void save() override {}

  std::function<void(std::span<const ByteRange>)> told;

 private:
  CsrHeader header_;
  std::vector<std::uint64_t> words_;
};

}  // namespace tiermap::test
