#include "bfs/memory_need.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "bfs/traversal.hpp"
#include "bfs/tree_check.hpp"
#include "bfs/visitor_traversal.hpp"
#include "config/size.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// For the mapped file. The page cache, which is what mmap takes, gives way to what is needed.
std::uint64_t bytes_for_pages(const MemoryNeed& need, const WorkloadOptions& options, const MemorySystem& system) {
  switch (options.system) {
    case System::tiermap:
      return std::min(system.budget_bytes(), need.mapped_bytes);
    case System::memory:
      return need.mapped_bytes;
    case System::mmap:
      break;
  }
  return 0;
}

}  // namespace

std::uint64_t search_state_bytes(const SearchNeed& need) noexcept {
  if (!need.by_visitors) {
    return traversal_state_bytes(need.vertices);
  }
  // Level, parent, and a place in a queue.
  const std::uint64_t of_vertices =
      need.mapped_state ? 0 : need.vertices * (2 * sizeof(Vertex) + sizeof(std::uint32_t));
  return of_vertices + visitor_bytes(need.threads);
}

std::uint64_t bytes_beside_pages(const MemoryNeed& need, bool verify) noexcept {
  std::uint64_t bytes = search_state_bytes(need.search);
  if (verify) {
    bytes = std::max(bytes, need.vertices * sizeof(Vertex) + tree_check_bytes(need.vertices));
  }
  return bytes + (need.check_in_memory ? reference_bytes(need.vertices, need.arcs) : 0);
}

void check_memory(const MemoryNeed& need, const std::string& name, const WorkloadOptions& options,
                  const MemorySystem& system) {
  const std::uint64_t beside = bytes_beside_pages(need, options.verify);
  const std::uint64_t pages = bytes_for_pages(need, options, system);
  const std::uint64_t usable = read_machine_memory().usable_bytes();
  if (beside + pages <= usable) {
    return;
  }
  std::string remedies = "number them without gaps, or choose a smaller graph";
  remedies += options.system == System::tiermap ? ", a smaller --budget" : "";
  remedies += options.verify ? " or --no-verify" : "";
  throw OptionError(
      fmt::format("{}: {} vertices need {} of memory beside {} for pages, and {} is left: {}", name, need.vertices,
                  format_size_rounded(beside), format_size_rounded(pages), format_size_rounded(usable), remedies),
      ENOMEM);
}

}  // namespace tiermap
