// Copies of heaps that nobody has open, and what makes a copy of the data a heap of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heap/heap_layout.hpp"
#include "tiermap/heap_check.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Makes the copied data that of a closed heap with another identity, durably: with the journal of the first it would
/// be taken for damaged, as it should.
void write_closed(Store& data, HeapSuperblock superblock, HeapStateBlock state);

/// Copies a sound heap, in the state in which it would be opened. Throws StoreError, for one that is not sound too;
/// nothing stays at `to` then, nor after what `progress` throws. `verified` is called once, before there is anything at
/// `to`: a process that is ended until then leaves nothing.
void copy_heap(const std::string& from, const std::string& to, const HeapProgress& progress = {},
               const std::function<void()>& verified = {});

/// What became of a heap that was not sound.
struct HeapSalvage {
  bool was_sound = true;             ///< Then it was copied, and nothing more.
  std::vector<HeapObject> kept;      ///< Their memory is a live block by intact metadata.
  std::vector<HeapObject> doubtful;  ///< Kept as they were found.
  std::vector<HeapObject> lost;      ///< By intact metadata their memory is not theirs.
  /// Nobody knows what is in them: kept. A block that is freed there gives 8 bytes back.
  std::uint64_t unknown_bytes = 0;
  std::uint64_t unsure_blocks = 0;  ///< Slots of spans whose bits are lost: kept as if all were live.
};

/// Makes a heap at `to` that can be opened of what there is at `from`: what intact metadata says stays, and no memory
/// that may be in use is free in it. Blocks are copied as they are, and may not go together. Throws as copy_heap().
HeapSalvage salvage_heap(const std::string& from, const std::string& to, const HeapProgress& progress = {},
                         const std::function<void()>& verified = {});

}  // namespace tiermap
