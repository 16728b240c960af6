// Bringing an earlier copy of a heap up to date.
#pragma once

#include <cstdint>
#include <string>

#include "heap/heap_layout.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Makes the copy at `copy` one of the heap whose data is `data`, in this state: only blocks of 4 KiB that differ are
/// written. Returns their bytes. Throws StoreError and leaves it as it is if it is no copy of this heap, was changed
/// since, or is open; throws StoreError, and nothing stays there, if it cannot be written. One that was cut short is
/// refused as a heap and can be removed.
std::uint64_t update_copy(Store& data, const std::string& copy, const HeapSuperblock& superblock,
                          const HeapStateBlock& state);

}  // namespace tiermap
