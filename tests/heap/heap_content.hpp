// What a heap should hold, as plain values, and random changes made to both. A change says everything itself, so that
// any of them can be left out of a sequence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tiermap/heap.hpp"
#include "tiermap/heap_containers.hpp"

namespace tiermap {

/// Thrown where a heap is not what it should be.
struct WrongHeap : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool right, const std::string& what) {
  if (!right) {
    throw WrongHeap(what);
  }
}

struct HeapChange {
  enum class Kind : std::uint8_t { construct, destroy, fill, allocate, free, free_wrongly, describe } kind;
  std::uint64_t which;  ///< The name, or the block.
  std::uint64_t seed;   ///< For all else.
};

std::string text_of(const HeapChange& change);
HeapChange random_change(std::mt19937_64& random);

/// The expected content. With a heap, changes are made to that as well, and are to have the same outcome.
class HeapContent {
 public:
  /// Makes what is needed beside the named objects, in an empty heap.
  static void begin(Heap& heap);

  void change(const HeapChange& change, Heap* heap);
  /// Throws WrongHeap unless the heap holds exactly this.
  void require_same(Heap& heap) const;
  /// Destroys all of it, and requires that no block is left. The heap is of no use then.
  static void require_no_leak(Heap& heap);

  std::uint64_t number = 0;  ///< In the heap too, at the next stamp().
  void stamp(Heap& heap) const;
  static std::uint64_t stamp_of(Heap& heap);

 private:
  enum class Type : std::uint8_t { array, vector, table, ordered };
  struct Object {
    Type type = Type::array;
    std::string description;
    std::vector<std::uint64_t> numbers;                       ///< array, vector
    std::map<std::string, std::vector<std::uint64_t>> table;  ///< table
    std::map<std::uint64_t, std::string> ordered;             ///< ordered
  };
  struct Block {
    std::uint64_t bytes;
    std::uint64_t pattern;
  };

  void construct(const std::string& name, std::uint64_t seed, Heap* heap);
  void destroy(const std::string& name, std::uint64_t seed, Heap* heap);
  void fill(const std::string& name, std::uint64_t seed, Heap* heap);
  void allocate(std::uint64_t seed, Heap* heap);
  void free(std::uint64_t which, bool twice, Heap* heap);
  void require_same_object(Heap& heap, const std::string& name, const Object& object) const;

  std::map<std::string, Object> objects_;
  std::vector<Block> blocks_;
};

/// The files of an open heap as they are now, which is what a kill would leave.
void copy_heap_as_killed(const std::string& path, const std::string& to);

}  // namespace tiermap
