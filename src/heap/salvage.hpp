// Writing metadata and names of what remains of a heap, so that the copy of its data can be opened.
#pragma once

#include "heap/block_check.hpp"
#include "heap/heap_copy.hpp"
#include "heap/heap_remains.hpp"

namespace tiermap {

/// Into `data`, a copy of what `remains` is of. `blocks` has run. Returns the state that goes with it.
HeapStateBlock write_salvaged(Store& data, HeapRemains& remains, const BlockCheck& blocks, HeapSalvage& salvage);

}  // namespace tiermap
