#include "heap/heap_contents.hpp"

#include <algorithm>
#include <cerrno>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::uint64_t in_slabs(std::uint64_t bytes) noexcept {
  return (bytes + slab_bytes - 1) / slab_bytes * slab_bytes;
}

void check_places(const std::vector<HeapObject>& objects, std::uint64_t used_bytes, const std::string& path) {
  for (const HeapObject& object : objects) {
    if (object.offset > used_bytes || object.count > (used_bytes - object.offset) / object.size_bytes) {
      throw StoreError(EINVAL, "heap " + path + " is damaged: an object of type " + object.type_name +
                                   " is said to be where no block is, at offset " + std::to_string(object.offset) +
                                   ": restore it from a snapshot");
    }
  }
}

}  // namespace

HeapContents::HeapContents(const std::string& path) : path_(path), opened_(std::make_shared<Opened>()) {
  opened_->files = open_heap_files(path, false);
  superblock_ = read_superblock(*opened_->files.data, path);
  layout_ = std::make_unique<HeapLayout>(superblock_.capacity_bytes);
  opened_->data = saved_data(opened_->files, superblock_, path);
  Store& store = *opened_->data.store;
  state_ = read_state(store, *layout_, path);
  require_saved(state_, path);
  metadata_ = std::make_unique<StoreMetadataArea>(store, HeapLayout::metadata_offset);
  naming_heap(path, [&] {
    allocator_ = std::make_unique<Allocator>(*metadata_, superblock_.capacity_bytes, Allocator::Content::saved);
  });
  names_ = read_names(store, *layout_, state_, path);
  used_bytes_ = std::max(allocator_->used_end_bytes(), slab_bytes);
  check_places(names_->list(), used_bytes_, path);
}

std::shared_ptr<Store> HeapContents::store() const {
  return {opened_, opened_->data.store.get()};
}

std::uint64_t HeapContents::block_bytes(std::uint64_t offset) {
  try {
    return naming_heap(path_, [&] { return allocator_->block_bytes(offset); });
  } catch (const OptionError&) {
    return 0;
  }
}

std::uint64_t HeapContents::block_bytes_for(std::uint64_t bytes, std::uint64_t alignment) noexcept {
  const unsigned size_class = size_class_for(bytes, alignment);
  return size_class == no_size_class ? in_slabs(bytes) : size_classes[size_class].bytes;
}

}  // namespace tiermap
