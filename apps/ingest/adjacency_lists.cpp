#include "ingest/adjacency_lists.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// The targets of a block follow its head.
template <typename Head>
auto targets_of(Head& block) noexcept {
  using Target = std::conditional_t<std::is_const_v<Head>, const Vertex, Vertex>;
  return reinterpret_cast<Target*>(&block + 1);
}

AllocatorState& allocator_in(std::span<std::byte> file) {
  return reinterpret_cast<AdjacencyHeader*>(file.data())->allocator;
}

}  // namespace

AdjacencyBuilder::AdjacencyBuilder(std::span<std::byte> file, const AdjacencyHeader& header)
    : file_(file),
      header_(header),
      records_(reinterpret_cast<VertexRecord*>(file.data() + header.records_at)),
      allocator_(allocator_in(file), header.blocks_at, header.file_bytes) {}

void AdjacencyBuilder::insert(std::span<const Edge> edges) {
  for (const Edge& edge : edges) {
    insert(edge);
  }
}

void AdjacencyBuilder::insert(Edge edge) {
  const std::lock_guard lock(locks_[edge.source % lock_count].mutex);
  VertexRecord& record = records_[edge.source];
  // First, and so that the compiler leaves it there: an access to an absent page that begins with a store is one fault,
  // not two. The same goes for the block, which is stored to before it is read.
  std::atomic_ref(record.degree).fetch_add(1, std::memory_order_relaxed);
  if (record.room == 0) {
    append_block(record, edge.source);
  }
  targets_of(block_at(record.last))[record.capacity - record.room] = edge.target;
  --record.room;
}

/// The list's blocks are full, and its new neighbour is counted already.
void AdjacencyBuilder::append_block(VertexRecord& record, Vertex vertex) {
  const std::uint32_t size_class = next_block_class(record.degree - 1);
  const std::uint64_t offset = allocator_.allocate(size_class);
  block_at(offset) = {.next = 0, .vertex = vertex, .capacity = block_capacity(size_class)};
  if (record.last != 0) {
    block_at(record.last).next = offset;
  } else {
    record.first = offset;
  }
  record.last = offset;
  record.room = block_capacity(size_class);
  record.capacity = record.room;
}

void AdjacencyBuilder::finish() {
  if (allocator_.top() != header_.file_bytes) {
    throw StoreError(EIO, fmt::format("the lists end at byte {}, not at {}: the edges are not those that were counted "
                                      "before; let nobody change the input, and try again",
                                      allocator_.top(), header_.file_bytes));
  }
  header_.allocator = allocator_in(file_);
  header_.checksum = header_.computed_checksum();
  std::memcpy(file_.data(), &header_, sizeof(header_));
}

const BlockHead* AdjacencyReader::block_of(Vertex vertex, std::uint64_t offset) const noexcept {
  if (offset % least_block_bytes != 0 || offset < header_.blocks_at ||
      offset > header_.file_bytes - least_block_bytes) {
    return nullptr;
  }
  const auto* block = reinterpret_cast<const BlockHead*>(file_.data() + offset);
  const std::uint64_t bytes = sizeof(BlockHead) + std::uint64_t{block->capacity} * sizeof(Vertex);
  const bool sound = block->vertex == vertex && std::has_single_bit(bytes) && bytes >= least_block_bytes &&
                     bytes <= block_bytes(block_classes - 1) && bytes <= header_.file_bytes - offset;
  return sound ? block : nullptr;
}

std::optional<ListSum> AdjacencyReader::follow(Vertex vertex) const {
  const VertexRecord record = records_[vertex];
  ListSum list;
  std::uint64_t offset = record.first;
  std::uint64_t last = 0;
  std::uint32_t room = 0;
  std::uint32_t capacity = 0;
  if (record.degree > header_.edges) {
    return std::nullopt;
  }
  // Every block has a neighbour at least: a chain that leads back into itself is left when all are counted.
  while (list.degree < record.degree) {
    const BlockHead* block = block_of(vertex, offset);
    if (block == nullptr) {
      return std::nullopt;
    }
    const auto held = static_cast<std::uint32_t>(std::min<std::uint64_t>(block->capacity, record.degree - list.degree));
    for (const Vertex target : std::span(targets_of(*block), held)) {
      list.add(target);
    }
    capacity = block->capacity;
    room = capacity - held;
    last = offset;
    offset = block->next;
  }
  const bool sound = offset == 0 && last == record.last && room == record.room && capacity == record.capacity;
  return sound ? std::optional(list) : std::nullopt;
}

}  // namespace tiermap
