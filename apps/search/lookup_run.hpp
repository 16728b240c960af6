// Many look-ups by many threads, each answer checked.
#pragma once

#include <cstdint>
#include <string>

#include "observe/progress.hpp"
#include "parallel/thread_team.hpp"
#include "search/dictionary.hpp"
#include "search/entries.hpp"

namespace tiermap {

/// What look-ups came to.
struct LookupOutcome {
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  std::uint64_t value_sum = 0;  ///< Of the values found, modulo 2^64: the same on every system.
  std::uint64_t wrong = 0;
  std::uint64_t first_wrong = ~std::uint64_t{0};  ///< Its index.

  void add(const LookupOutcome& other) noexcept;
  /// What was wrong in the answers from `file`, in one line; empty if nothing was.
  std::string failure(const LookupSequence& sequence, const std::string& file) const;
};

/// Makes the first `count` look-ups of the sequence. Throws what Dictionary::find() throws.
LookupOutcome look_up(const Dictionary& dictionary, const LookupSequence& sequence, std::uint64_t count,
                      ThreadTeam& team, ProgressDisplay& progress);

}  // namespace tiermap
