// The file behind one mapping of a program, as mmap() sees it: pages wholly past the end of the file cannot be read,
// writes never make it longer, and what others add to it or cut off is seen at once.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "store/file_descriptor.hpp"
#include "store/file_store.hpp"

namespace tiermap::preload {

class MappedFileStore final : public Store {
 public:
  /// Keeps a copy of an open descriptor. Throws StoreError.
  MappedFileStore(int program_descriptor, const std::string& path);

  /// Opens the file again, for itself: before anything else. Throws StoreError. What is open by then goes with this
  /// object and not before, as it may take locks with it.
  void open(const std::string& path, bool writable);

  /// The program's own opening, which a mapping keeps, and so its locks, once all of the program's descriptors are
  /// closed: for mappings of the kernel's in place of the region.
  int program_descriptor() const noexcept { return program_descriptor_.get(); }
  /// All that it has open, as long as it lives; some may be negative.
  std::array<int, 3> descriptors() const noexcept {
    return {descriptor_, direct_descriptor_, program_descriptor_.get()};
  }
  /// The file's size now.
  std::uint64_t actual_bytes() const noexcept;
  /// The program changes these bytes of the file by a call, so that the page cache has them: they are read from there
  /// from then on. A read past it would have the kernel write them to the disk before.
  void note_change(std::uint64_t offset, std::uint64_t bytes) noexcept;

  std::uint64_t size_bytes() const override { return actual_bytes(); }
  bool writable() const override { return inner_->writable(); }
  /// What lies past the end is dropped, not refused.
  bool growable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override { return inner_->flush(); }
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return inner_->direct_alignment(); }
  std::string name() const override { return inner_->name(); }

 private:
  static constexpr std::uint64_t block_bytes = 64 << 10;
  static constexpr std::uint64_t most_changed_blocks = 1024;

  bool has_changed(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  FileDescriptor program_descriptor_;
  std::unique_ptr<FileStore> inner_;
  int descriptor_ = -1;
  int direct_descriptor_ = -1;
  /// Each number plus one, where its remainder says; another of the same remainder takes its place.
  std::array<std::atomic<std::uint64_t>, most_changed_blocks> changed_blocks_{};
};

}  // namespace tiermap::preload
