// One regular file or block device.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "store/file_open.hpp"
#include "store/shared_flush.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// Growth: a write past the end makes the file exactly as long as its last byte. Block devices do not grow. A file that
/// another program cuts while it is open reads as zeros past its new end, and what another program adds is seen.
///
/// Thread-safe. The size is an atomic that only grows but for resize() and for a shrinking seen by read(); whoever
/// changes the file's length holds growth_mutex_, so that no ftruncate() cuts off what another thread has just
/// appended.
class FileStore final : public Store {
 public:
  /// Throws StoreError. `create_bytes` is the size of a file that is made.
  static std::unique_ptr<FileStore> open(const std::string& path, OpenMode mode, std::uint64_t create_bytes,
                                         const FileOptions& options);

  /// An empty file without a name in a directory, gone with the store. Throws StoreError: the directory "cannot take"
  /// `what`.
  static std::unique_ptr<FileStore> open_nameless(const std::string& directory, const std::string& what);

  FileStore(std::string path, OpenedFile opened, bool writable, const FileOptions& options);

  std::uint64_t size_bytes() const override { return size_.load(std::memory_order_acquire); }
  bool writable() const override { return writable_; }
  bool growable() const override { return writable_ && regular_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// After a failure every later flush() fails alike: the kernel has dropped what it could not write.
  int flush() override;
  int resize(std::uint64_t bytes) override;
  int punch(std::uint64_t offset, std::uint64_t bytes) override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return file_.read_alignment(); }
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return options_.max_writes_in_flight; }
  std::string name() const override { return path_; }
  /// The file's size now, whoever changed it. Signal-safe.
  std::uint64_t actual_bytes() const noexcept { return size_for(UINT64_MAX); }

 private:
  std::uint64_t size_for(std::uint64_t end) const noexcept;
  bool grow_file_to(std::uint64_t offset, std::uint64_t end) noexcept;
  void note_actual_size() noexcept;

  const std::string path_;
  const DirectFile file_;
  const FileOptions options_;
  const bool writable_;
  const bool regular_;
  std::atomic<std::uint64_t> size_;
  std::atomic<std::uint64_t> lost_end_{0};  ///< Where the file ended before others cut it.
  std::mutex growth_mutex_;
  std::atomic<bool> size_changed_{false};
  SharedFlush flushes_;
};

}  // namespace tiermap
