// Whether a graph can be searched in the memory there is: to be asked before hours go into making it.
#pragma once

#include <cstdint>
#include <string>

#include "command_line/memory_system.hpp"
#include "command_line/options.hpp"

namespace tiermap {

/// How a graph is searched, as far as memory goes.
struct SearchNeed {
  std::uint64_t vertices = 0;
  bool by_visitors = false;
  bool mapped_state = false;
  std::uint32_t threads = 1;
};

/// The most that a search takes beside what is mapped.
std::uint64_t search_state_bytes(const SearchNeed& need) noexcept;

/// What is to be searched, as far as memory goes.
struct MemoryNeed {
  std::uint64_t vertices = 0;
  std::uint64_t arcs = 0;
  std::uint64_t mapped_bytes = 0;  ///< The largest file that is mapped.
  bool check_in_memory = false;    ///< Whether the graph is read into plain vectors too.
  SearchNeed search = {};
};

/// The most that vertices and checks take beside the mapped file.
std::uint64_t bytes_beside_pages(const MemoryNeed& need, bool verify) noexcept;

/// Throws OptionError, which calls the graph `name`, if that, and what the system takes for the mapped file, is more
/// than may still be taken.
void check_memory(const MemoryNeed& need, const std::string& name, const WorkloadOptions& options,
                  const MemorySystem& system);

}  // namespace tiermap
