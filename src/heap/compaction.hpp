// Giving back what a closed heap's files hold and no block needs.
#pragma once

#include <cstdint>
#include <string>

#include "tiermap/heap_check.hpp"

namespace tiermap {

struct HeapCompaction {
  std::uint64_t bytes_before = 0;  ///< On the disk.
  std::uint64_t bytes_after = 0;
  std::uint64_t journal_bytes_before = 0;  ///< On the disk as well.
  std::uint64_t journal_bytes_after = 0;
};

/// Makes holes of every page of 4 KiB that no live block reaches into, and of metadata and names that say nothing any
/// more; finishes what a crash left in the journal, and empties it. Blocks stay where they are. The state is not
/// touched, so that a crash in the midst does no harm. Throws StoreError: for a heap that is open elsewhere or not
/// sound, which is left as it is, and where the file system makes no holes.
HeapCompaction compact_heap(const std::string& path, const HeapProgress& progress = {});

}  // namespace tiermap
