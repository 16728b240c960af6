// The blocks of a commit on their way from the journal to the base.
#pragma once

#include <cstdint>
#include <span>

#include "heap/journal.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Makes every block of `base` that is in `entries` what it is there: zeros, or the content of its slot. The last block
/// is cut at `size` bytes; zeros go as far as `base` does. `entries` are in order of blocks. Blocks that are not what
/// their checksums say are never written. Returns 0 or a negative errno value, -EIO for such a block.
int copy_to_base(const Journal& journal, std::span<const JournalEntry> entries, Store& base, std::uint64_t size);

}  // namespace tiermap
