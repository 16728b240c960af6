// What Heap::check() finds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tiermap {

/// A named or unique object, as Heap::objects() tells of it.
struct HeapObject {
  std::string name;  ///< Empty for the unique object of its type.
  bool unique = false;
  std::string type_name;         ///< As in the source, as far as the compiler tells.
  std::uint64_t count = 0;       ///< How many side by side.
  std::uint64_t size_bytes = 0;  ///< Of one.
  std::uint64_t alignment = 0;
  std::uint64_t offset = 0;  ///< Of the first, in bytes from data().
  std::string description;
};

/// Called now and then with how many bytes of how many are done.
using HeapProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

/// Something in a heap's files that is not as it should be.
struct HeapFinding {
  std::string file;        ///< "data" or "journal", in the heap's directory.
  std::uint64_t byte = 0;  ///< Where in it; of a sparse store's directory, which byte of the store.
  std::string what;
  std::string meaning;
};

/// How a heap was left.
enum class HeapCondition : std::uint8_t {
  closed,      ///< By close() or snapshot().
  checkpoint,  ///< With checkpoints by a process that ended without close(): the last one is what is opened.
  unsaved,     ///< Without checkpoints by a process that ended without close(): it cannot be opened.
  unknown,     ///< What would say so is damaged.
};

struct HeapCheck {
  std::vector<HeapFinding> findings;  ///< None: the heap is sound, and can be opened.
  HeapCondition condition = HeapCondition::unknown;
  std::uint64_t checkpoints = 0;             ///< Since the heap was made, closings included.
  std::uint64_t journal_bytes_to_apply = 0;  ///< Of the last checkpoint: the next that opens the heap finishes it.
  std::uint64_t live_blocks = 0;             ///< In intact metadata,
  std::uint64_t live_bytes = 0;              ///< and how many bytes these may use.
  /// Objects whose memory is a live block by intact metadata. What programs put into it has no checksum.
  std::vector<HeapObject> intact;
  /// Objects with a name that was read, but of whose memory, or name, no intact metadata says that it is theirs. A
  /// heap that was salvaged may have some and be sound.
  std::vector<HeapObject> doubtful;

  bool sound() const noexcept { return findings.empty(); }
};

}  // namespace tiermap
