// What the three structures have in common: they are written into a mapped file, and looked up where they lie.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "command_line/memory_system.hpp"
#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "search/search_file.hpp"

namespace tiermap {

/// A structure as it lies in a mapped file. Threads may look up at once.
class Dictionary {
 public:
  virtual ~Dictionary() = default;
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  /// The value of a key, or none if no element has it. Throws StoreError where the file is damaged.
  virtual std::optional<std::uint64_t> find(std::uint64_t key) const = 0;

 protected:
  Dictionary() = default;
};

/// What building works with.
struct BuildTools {
  ThreadTeam& team;
  std::uint64_t memory_bytes;  ///< How much of the file can stay in memory.
  ProgressDisplay& progress;
};

/// Writes heads and elements; the header's page stays as it is. What is written depends on the header alone.
void build_dictionary(const SearchHeader& header, const MappedBytes& mapped, const BuildTools& tools);

/// The structure that was built. The bytes must outlive it; `name` is what messages call the file.
std::unique_ptr<const Dictionary> open_dictionary(const SearchHeader& header, const MappedBytes& mapped,
                                                  const std::string& name);

}  // namespace tiermap
