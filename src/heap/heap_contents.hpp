// What is in a heap and where, for a view that maps it by itself: Python's. Reading only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heap/allocator.hpp"
#include "heap/heap_directory.hpp"
#include "heap/heap_layout.hpp"
#include "heap/object_names.hpp"
#include "heap/saved_heap.hpp"
#include "heap/store_bytes.hpp"
#include "tiermap/heap.hpp"

namespace tiermap {

/// Thread-safe. The heap is locked against writers while this or a copy of store() lives.
class HeapContents {
 public:
  /// In the state of the last close() or checkpoint(). Throws as Heap::open_read_only(), but for options.
  explicit HeapContents(const std::string& path);
  HeapContents(const HeapContents&) = delete;
  HeapContents& operator=(const HeapContents&) = delete;

  /// As Heap::objects().
  std::vector<HeapObject> objects() const { return names_->list(); }
  /// Its bytes from data_offset() on, used_bytes() of them, are what offsets of objects are in.
  std::shared_ptr<Store> store() const;
  std::uint64_t data_offset() const noexcept { return layout_->data_offset; }
  /// No block reaches beyond. At least 64 KiB, a multiple of that.
  std::uint64_t used_bytes() const noexcept { return used_bytes_; }
  std::uint64_t page_size_bytes() const noexcept { return superblock_.page_size_bytes; }
  /// Of this heap, and of this state of it.
  std::uint64_t identity() const noexcept { return superblock_.identity; }
  std::uint64_t generation() const noexcept { return state_.generation; }
  /// Whether this state was left by close() or snapshot().
  bool closed() const noexcept { return state_.state == HeapState::closed && !opened_->data.left_open; }
  /// Whether some of it is in the journal still: store() is no plain file then.
  bool in_journal() const noexcept { return opened_->data.journal != nullptr; }

  /// How many bytes the block that begins there has; 0 if none does. Throws StoreError where its span is damaged.
  std::uint64_t block_bytes(std::uint64_t offset);
  /// How many a block has of which so many were asked for.
  static std::uint64_t block_bytes_for(std::uint64_t bytes, std::uint64_t alignment) noexcept;

 private:
  /// What is open, kept by every copy of the store.
  struct Opened {
    HeapFiles files;
    SavedData data;
  };

  const std::string path_;
  std::shared_ptr<Opened> opened_;
  HeapSuperblock superblock_;
  HeapStateBlock state_;
  std::unique_ptr<HeapLayout> layout_;
  std::unique_ptr<StoreMetadataArea> metadata_;
  std::unique_ptr<Allocator> allocator_;
  std::unique_ptr<ObjectNames> names_;
  std::uint64_t used_bytes_ = 0;
};

}  // namespace tiermap
