#include "bfs/search_state.hpp"

#include <algorithm>
#include <utility>

#include "bfs/tree_check.hpp"

namespace tiermap {
namespace {

/// How often a vertex may wait at once: it is put in once more whenever a shorter way to it is found.
constexpr std::uint64_t waits_of_vertex = 8;
/// More room for each thread: in a small graph many may wait more often.
constexpr std::uint64_t spare_blocks_of_thread = 256;

}  // namespace

SearchState::SearchState(std::uint64_t vertices, bool levels)
    : parents_in_memory_(vertices),
      levels_in_memory_(levels ? vertices : 0),
      parents_(parents_in_memory_),
      levels_(levels_in_memory_),
      blocks_(std::in_place) {}

SearchState::SearchState(std::uint64_t vertices, MemorySystem& system, std::uint32_t threads) {
  // A vertex is looked up when an edge leads to it: in no order. Queues are filled and emptied block by block.
  const MappedBytes& levels = map(system, "levels", vertices * sizeof(std::uint32_t), Advice::random);
  const MappedBytes& parents = map(system, "parents", vertices * sizeof(Vertex), Advice::random);
  const std::uint64_t queue_bytes =
      vertices * waits_of_vertex * sizeof(Vertex) + threads * spare_blocks_of_thread * BlockPool::block_bytes;
  const MappedBytes& queues = map(system, "queues", queue_bytes, Advice::sequential);
  levels_ = levels.as_span<std::uint32_t>().first(vertices);
  parents_ = parents.as_span<Vertex>().first(vertices);
  blocks_.emplace(queues.as_span<Vertex>());
}

MappedBytes& SearchState::map(MemorySystem& system, const char* what, std::uint64_t bytes, Advice advice) {
  constexpr std::uint64_t whole = 4096;
  MappedFile file{Backing::create(scratch_path("tiermap-bfs", what), (bytes + whole - 1) / whole * whole), nullptr};
  file.bytes = system.map(file.backing, Access::read_write);
  file.bytes->advise(advice, {0, file.bytes->size()});
  files_.push_back(std::move(file));
  return *files_.back().bytes;
}

void SearchState::clear(ThreadTeam& team) {
  constexpr std::uint64_t piece = 1U << 16U;
  team.for_each((parents_.size() + piece - 1) / piece, [&](std::uint64_t index) {
    const std::uint64_t begin = index * piece;
    const std::uint64_t count = std::min<std::uint64_t>(piece, parents_.size() - begin);
    std::ranges::fill(parents_.subspan(begin, count), no_vertex);
    if (!levels_.empty()) {
      std::ranges::fill(levels_.subspan(begin, count), unreached);
    }
  });
}

std::uint64_t SearchState::mapped_bytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const MappedFile& file : files_) {
    bytes += file.bytes->size();
  }
  return bytes;
}

}  // namespace tiermap
