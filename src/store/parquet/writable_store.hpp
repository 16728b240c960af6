// Rows of Parquet files that can be written.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "platform/writer_first_mutex.hpp"
#include "store/file_open.hpp"
#include "store/overlay_store.hpp"
#include "store/parquet/rows_store.hpp"

namespace tiermap {

/// A file that nobody else writes meanwhile, as long as this lives and all keep to the lock (flock()).
struct ParquetTarget {
  std::string path;         ///< Without symbolic links.
  FileDescriptor file;      ///< What the rows are read from.
  FileDescriptor replaced;  ///< What bears the name now, where that is another file.
};

/// Throws StoreError; EBUSY where another store or program writes it.
ParquetTarget lock_parquet_file(const std::string& path);

/// A Parquet file cannot be changed in place. What is written is kept in a file without a name beside it, and settle()
/// or flush() make a new file of it and of the old one, which takes the old one's place in one step: before there was
/// the old one, as it was, and whoever has that open keeps it. Of many files each is replaced by itself.
///
/// Thread-safe. Reads go on while a new file is made, writes wait; who makes one waits for writes that are under way,
/// and for none that come later. As long as one cannot be made what was written stays, is read, and is tried again.
class ParquetWritableStore final : public Store {
 public:
  using OpenRows = std::function<std::unique_ptr<ParquetRowsStore>(const std::vector<int>& descriptors)>;

  /// `open_rows` opens the targets, which the descriptors have open in this order. Throws what it throws, and
  /// StoreError.
  ParquetWritableStore(std::vector<ParquetTarget> targets, OpenRows open_rows);
  ~ParquetWritableStore() override;
  ParquetWritableStore(const ParquetWritableStore&) = delete;
  ParquetWritableStore& operator=(const ParquetWritableStore&) = delete;

  std::uint64_t size_bytes() const override { return bytes_; }
  bool writable() const override { return true; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override;
  int settle() override;
  int flush() override { return settle(); }
  std::uint32_t max_reads_in_flight() const override { return max_reads_; }
  std::uint32_t max_writes_in_flight() const override { return max_writes_; }
  std::optional<ElementLayout> element_layout() const override { return layout_; }
  std::string name() const override { return name_; }

 private:
  /// What the files had when they were opened, and what was written since.
  struct Content {
    std::shared_ptr<ParquetRowsStore> rows;
    std::unique_ptr<OverlayStore> changes;  ///< Over the rows.
  };

  std::shared_ptr<const Content> content() const;
  void replace_files();
  void take_rows();

  std::vector<ParquetTarget> targets_;
  const OpenRows open_rows_;
  const pid_t owner_;
  std::uint64_t bytes_ = 0;
  std::uint32_t max_reads_ = 0;
  std::uint32_t max_writes_ = 0;
  std::optional<ElementLayout> layout_;
  std::string name_;
  WriterFirstMutex writing_;  ///< Shared by writes, alone for replacing files.
  mutable std::mutex content_mutex_;
  std::shared_ptr<const Content> content_;  ///< Guarded by it. Whoever reads keeps what was there when he began.
  std::atomic<bool> changed_{false};
  std::string told_;  ///< Why no new file could be made, as it was said last. Guarded by writing_.
};

}  // namespace tiermap
