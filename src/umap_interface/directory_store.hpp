// A directory of numbered files as one store, as LLNL/umap's SparseStore lays it out.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "platform/lazy_array.hpp"
#include "store/file_descriptor.hpp"
#include "store/shared_flush.hpp"
#include "tiermap/store.hpp"
#include "umap_interface/directory_metadata.hpp"

namespace tiermap::umap_interface {

/// File I holds the bytes from I times the files' size on. A file is made by the first write to it, as a hole of its
/// full size: it takes room for what is written. What is not there reads as zeros, as does what a file lacks.
///
/// Thread-safe. As many files as the limit of descriptors allows, at most 4,096, stay open: what a table says that is
/// read without a lock, and whose entries are set once. Of the others, and of a directory that could have more files
/// than a table is worth, a few are open at a time (mutex_).
class DirectoryStore final : public Store {
 public:
  /// Opens the directory, or makes it. Throws StoreError; nothing that was not there stays behind then.
  static std::shared_ptr<DirectoryStore> open_or_create(const std::string& path, std::uint64_t region_bytes,
                                                        std::uint64_t page_bytes, std::uint64_t file_bytes);
  /// Throws StoreError.
  static std::shared_ptr<DirectoryStore> open(const std::string& path, bool read_only);
  /// Throws StoreError.
  static DirectoryMetadata metadata_of(const std::string& path);

  ~DirectoryStore() override;
  DirectoryStore(const DirectoryStore&) = delete;
  DirectoryStore& operator=(const DirectoryStore&) = delete;

  std::uint64_t size_bytes() const override { return metadata_.capacity_bytes; }
  bool writable() const override { return writable_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  /// -ENOSPC past the capacity.
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int flush() override;
  bool locate_read(std::uint64_t offset, std::uint64_t bytes, Extent& extent) const noexcept override;
  bool locate_write(std::uint64_t offset, std::uint64_t bytes, Extent& extent) noexcept override;
  std::uint32_t direct_alignment() const override { return direct_ ? kernel_block_bytes : 1; }
  std::string name() const override { return "sparse directory " + path_; }
  const DirectoryMetadata& metadata() const { return metadata_; }

 private:
  static constexpr std::uint32_t kernel_block_bytes = 4096;
  static constexpr int not_kept = -1;  ///< There is a file, and it is one of the few or closed.

  struct Entry {
    std::atomic<int> buffered;  ///< Descriptor + 1; 0: there is no file; `not_kept`. Set last.
    std::atomic<int> direct;    ///< Descriptor + 1, with O_DIRECT; 0: none.
    std::atomic<bool> written;  ///< Handed out for writing: flush() looks after it.
  };

  DirectoryStore(std::string path, FileDescriptor directory, const DirectoryMetadata& metadata, bool writable);

  bool has_table() const noexcept { return entries_.size() > 0; }
  void open_existing();
  int open_entry(std::uint64_t index, bool make) noexcept;
  int open_file(std::uint64_t index, int flags) const noexcept;
  int make_file(std::uint64_t index) noexcept;
  int open_or_make(std::uint64_t index, bool make) noexcept;
  /// A descriptor for the file, and what keeps it open meanwhile; -ENOENT if it is not there and not to be made.
  int descriptor_for(std::uint64_t index, bool make, bool aligned, std::shared_ptr<FileDescriptor>& holder);
  int few_open(std::uint64_t index, bool make, std::shared_ptr<FileDescriptor>& holder);  ///< Holds mutex_.
  int flush_written(bool& untried);
  int flush_few(bool& untried);  ///< Holds mutex_.

  const std::string path_;
  const FileDescriptor directory_;
  const DirectoryMetadata metadata_;
  const bool writable_;
  const bool direct_;
  LazyArray<Entry> entries_;                    ///< By file; empty where there could be too many.
  std::atomic<std::size_t> entries_in_use_{0};  ///< None from here on has a file.
  std::uint64_t most_kept_ = 0;
  std::mutex mutex_;  ///< Guards the making of files and all below.
  std::uint64_t kept_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<FileDescriptor>> few_;
  std::set<std::uint64_t> few_written_;
  bool directory_changed_ = false;
  SharedFlush flushes_;  ///< Outside mutex_.
};

}  // namespace tiermap::umap_interface
