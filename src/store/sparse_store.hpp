// SparseStore: a directory of equal-sized segment files, each made on the first write to it.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "platform/lazy_array.hpp"
#include "store/file_open.hpp"
#include "store/shared_flush.hpp"
#include "store/sparse_directory.hpp"
#include "store/sparse_metadata.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What a URL says; 0 means that it does not.
struct SparseOptions {
  std::uint64_t segment_bytes = 0;   ///< A multiple of 4096; 256 MiB when a store is created without.
  std::uint64_t capacity_bytes = 0;  ///< At least the size. An existing store grows to it.
  FileOptions file;
};

/// Thread-safe. Descriptors of segments sit in a table of atomics, 0 while absent, set once and kept until the store is
/// destroyed: whoever was handed one may use it for as long as the store lives, and locate_read() takes no lock. mutex_
/// orders what changes the directory: making segments, metadata, resize(). The size is an atomic that writes only
/// raise.
class SparseStore final : public Store {
 public:
  /// `create_bytes` is the size of a new store; without, it is its capacity. Throws StoreError.
  static std::unique_ptr<SparseStore> open(const std::string& path, OpenMode mode,
                                           std::optional<std::uint64_t> create_bytes, const SparseOptions& options);

  ~SparseStore() override;
  SparseStore(const SparseStore&) = delete;
  SparseStore& operator=(const SparseStore&) = delete;

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  std::uint64_t capacity_bytes() const { return capacity_.load(std::memory_order_acquire); }
  std::uint64_t segment_bytes() const { return segment_bytes_; }
  /// Whether anything was ever written to it.
  bool has_segment(std::uint64_t index) const noexcept { return descriptor_of(index) >= 0; }
  bool writable() const override { return writable_; }
  /// A write past the size makes it larger, up to the capacity.
  bool growable() const override { return writable_ && size_bytes() < capacity_bytes(); }
  std::uint64_t most_bytes() const override { return capacity_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// -EFBIG past the capacity.
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// After a failure every later flush() fails alike: the kernel has dropped what it could not write.
  int flush() override;
  /// Raises the capacity too when `bytes` is above it; lowering the size gives the room back and keeps the capacity.
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return static_cast<std::uint32_t>(alignment_); }
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return options_.max_writes_in_flight; }
  std::string name() const override { return "sparse store " + directory_.path(); }

 private:
  SparseStore(SparseDirectory directory, const SparseMetadata& metadata, bool writable, const FileOptions& options);

  static std::unique_ptr<SparseStore> create(const std::string& path, std::optional<std::uint64_t> create_bytes,
                                             const SparseOptions& options);
  static std::unique_ptr<SparseStore> open_existing(const std::string& path, bool writable,
                                                    const SparseOptions& options);

  void open_segments();
  int descriptor_of(std::uint64_t index) const noexcept;
  int segment_for_write(std::uint64_t index) noexcept;
  std::int64_t read_unaligned(int descriptor, char* buffer, std::size_t bytes, std::uint64_t within) const noexcept;
  std::int64_t write_unaligned(std::uint64_t index, const char* buffer, std::size_t bytes,
                               std::uint64_t within) const noexcept;
  void raise_size(std::uint64_t end) noexcept;
  SparseMetadata metadata() const noexcept;
  int synchronise_segments() noexcept;
  int save_metadata() noexcept;
  int store_metadata() noexcept;
  int discard_past(std::uint64_t size) noexcept;

  SparseDirectory directory_;
  const FileOptions options_;
  const bool writable_;
  const std::uint64_t segment_bytes_;
  const std::uint64_t alignment_;
  std::atomic<std::uint64_t> capacity_;
  std::atomic<std::uint64_t> size_;
  LazyArray<std::atomic<int>> descriptors_;  ///< Descriptor + 1 by segment; 0: absent.
  LazyArray<std::atomic<unsigned char>>
      used_;  ///< By segment: handed out for writing, so flush() has to look after it.
  std::mutex mutex_;
  bool directory_changed_ = false;  ///< Guarded by mutex_.
  bool discarding_ = false;         ///< Guarded by mutex_.
  std::uint64_t saved_size_;        ///< Guarded by mutex_. What the metadata file has.
  SharedFlush flushes_;
};

}  // namespace tiermap
