// What a search keeps beside the graph: the level and the parent of every vertex, and room for queues. In memory, or on
// stores of their own, each mapped with the advice that suits it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bfs/vertex_queue.hpp"
#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "parallel/thread_team.hpp"

namespace tiermap {

class SearchState {
 public:
  /// All in memory. `levels`: whether levels are kept beside the parents.
  SearchState(std::uint64_t vertices, bool levels);
  /// In scratch files that go with the state, mapped by `system`, for queues of `threads` threads. Throws OptionError,
  /// StoreError.
  SearchState(std::uint64_t vertices, MemorySystem& system, std::uint32_t threads);

  /// Has every vertex unreached.
  void clear(ThreadTeam& team);

  std::span<Vertex> parents() const noexcept { return parents_; }
  std::span<std::uint32_t> levels() const noexcept { return levels_; }  ///< Empty if they are not kept.
  BlockPool& blocks() noexcept { return *blocks_; }
  bool is_mapped() const noexcept { return !files_.empty(); }
  /// Of the files; 0 in memory.
  std::uint64_t mapped_bytes() const noexcept;

 private:
  /// A scratch file and where it is mapped.
  struct MappedFile {
    Backing backing;
    std::unique_ptr<MappedBytes> bytes;
  };
  MappedBytes& map(MemorySystem& system, const char* what, std::uint64_t bytes, Advice advice);

  std::vector<Vertex> parents_in_memory_;
  std::vector<std::uint32_t> levels_in_memory_;
  std::vector<MappedFile> files_;
  std::span<Vertex> parents_;
  std::span<std::uint32_t> levels_;
  std::optional<BlockPool> blocks_;
};

}  // namespace tiermap
