// Many small reads of a store as few large ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

/// store.read() until all is there: 0, or a negative errno value, -EIO where the store ends before.
int read_all_of(Store& store, void* buffer, std::size_t bytes, std::uint64_t offset);

/// Reads whole blocks, and keeps those that were used last; what is as long as a block is read by itself. Who goes on
/// from block to block has more of them read at once, up to half of those that are kept. For stores that take long for
/// each read, however short. One thread at a time.
class BlockReader {
 public:
  BlockReader(std::shared_ptr<Store> store, std::size_t block_bytes, std::size_t most_blocks)
      : store_(std::move(store)), block_bytes_(block_bytes), most_blocks_(most_blocks) {}

  Store& store() const noexcept { return *store_; }

  /// 0 or a negative errno value; -EIO behind the end.
  int read(void* buffer, std::size_t bytes, std::uint64_t offset);

 private:
  struct Block {
    std::uint64_t number = 0;
    std::vector<char> bytes;
  };
  int find(std::uint64_t number);
  int fetch(std::uint64_t number);
  std::list<Block>::iterator known(std::uint64_t number);

  const std::shared_ptr<Store> store_;
  const std::size_t block_bytes_;
  const std::size_t most_blocks_;
  std::list<Block> blocks_;         ///< The one used last comes first.
  std::uint64_t behind_last_ = 0;   ///< The block behind those that were read last,
  std::size_t blocks_at_once_ = 0;  ///< and how many those were.
};

}  // namespace tiermap
