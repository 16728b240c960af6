// Reading and writing bytes of a store as a whole, and a heap's metadata area in one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "heap/metadata_records.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Zeros where the store ends. These throw StoreError.
void read_bytes(Store& store, std::uint64_t offset, std::span<std::byte> bytes);
void write_bytes(Store& store, std::uint64_t offset, std::span<const std::byte> bytes);

/// Makes the range read as zeros, by a hole, or by writing where the store can have none. Returns 0 or a negative errno
/// value.
int clear_bytes(Store& store, std::uint64_t offset, std::uint64_t bytes);

/// The metadata area that begins at an offset of a store. Thread-safe as the store is, which has to live as long.
class StoreMetadataArea final : public MetadataArea {
 public:
  StoreMetadataArea(Store& store, std::uint64_t offset) : store_(store), offset_(offset) {}
  void read_record(std::uint64_t place, std::span<std::byte> bytes) override {
    read_bytes(store_, offset_ + place, bytes);
  }
  void write_record(std::uint64_t place, std::span<const std::byte> bytes) override {
    write_bytes(store_, offset_ + place, bytes);
  }

 private:
  Store& store_;
  const std::uint64_t offset_;
};

}  // namespace tiermap
