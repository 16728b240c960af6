// Which blocks are live by a heap's metadata, and whether the objects with names lie in them.
#pragma once

#include <cstdint>
#include <vector>

#include "heap/heap_remains.hpp"
#include "heap/metadata_walk.hpp"

namespace tiermap {

/// What is known of the memory of an object with a name.
enum class ObjectMemory : std::uint8_t {
  live,     ///< A live block begins there and holds it.
  unknown,  ///< No intact metadata says anything of it.
  free,     ///< Intact metadata says that it is not a live block, or a shorter one.
};

class BlockCheck final : public MetadataVisitor {
 public:
  BlockCheck(HeapRemains& remains, HeapCheck& check, HeapProgress progress);
  /// Finds everything, in `check` too. Once.
  void run();
  /// For remains.names()[index].
  ObjectMemory memory_of(std::size_t index) const { return memory_[index]; }

  void damage(std::uint64_t place, const std::string& what) override;
  void span(std::uint64_t slab, const SavedSlab& saved, std::span<const std::uint64_t> bits) override;
  void large_block(std::uint64_t slab, const SavedSlab& saved) override;
  void unknown(std::uint64_t first_slab, std::uint64_t end_slab) override;
  void passed(std::uint64_t slab, std::uint64_t end_slab) override;

 private:
  template <typename Judge>
  void judge(std::uint64_t end_offset, Judge&& judge);
  void find_objects();

  HeapRemains& remains_;
  HeapCheck& check_;
  const HeapProgress progress_;
  std::vector<ObjectMemory> memory_;
  std::vector<std::size_t> by_offset_;
  std::size_t next_ = 0;  ///< In by_offset_: all before it were judged.
};

/// What Heap::check() does.
HeapCheck check_heap(const std::string& path, const HeapProgress& progress);

}  // namespace tiermap
