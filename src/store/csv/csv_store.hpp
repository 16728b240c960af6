// Columns of a text file as a store of numbers, row after row.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "store/csv/table.hpp"
#include "store/file_open.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A file as it was at some time: its size, and when it was written to.
struct FileState {
  std::uint64_t bytes = 0;
  std::int64_t written_nanoseconds = 0;

  /// Of a file that is open. Zeros if it cannot be said.
  static FileState of(const DirectFile& file) noexcept;
  bool operator==(const FileState&) const = default;
};

/// For reading only: rows are taken apart as pages of them are read. Reads of a file that has changed since it was
/// opened fail (ESTALE). Thread-safe: nothing changes after the constructor.
class CsvStore final : public Store {
 public:
  /// Throws StoreError.
  CsvStore(OpenedFile file, FileState state, CsvTable table, std::string name, const FileOptions& options);

  std::uint64_t size_bytes() const override { return table_.rows() * table_.row_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::optional<ElementLayout> element_layout() const override;
  std::string name() const override { return name_; }

 private:
  const OpenedFile file_;
  const FileState state_;
  const CsvTable table_;
  const std::string name_;
  const FileOptions options_;
};

}  // namespace tiermap
