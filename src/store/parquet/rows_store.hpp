// Rows of Parquet files, one file after the other, as records.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "store/parquet/codec.hpp"
#include "store/parquet/decoded_groups.hpp"
#include "store/parquet/records.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// A file that is open, and where its records are.
struct ParquetFile {
  std::string name;
  std::unique_ptr<ParquetReader> reader;
  ParquetRecords records;  ///< The same for all files, but for the columns' numbers and what can be null.
};

/// A row group that has rows.
struct ParquetPart {
  std::size_t file = 0;
  std::size_t group = 0;
  std::uint64_t offset = 0;  ///< Of its first record among all.
  std::uint64_t bytes = 0;
};

/// To read only. A row group is decoded when one of its records is asked for, see DecodedGroups. What cannot be decoded
/// is -EIO to who asked, and said once on standard error.
class ParquetRowsStore final : public Store {
 public:
  /// With `decoded_bytes` of decoded row groups; 0: as many as threads are likely to be at work in, up to 64 MiB.
  /// Throws StoreError for files of different columns, and for a limit that is less than a row group.
  ParquetRowsStore(std::vector<ParquetFile> files, std::uint64_t decoded_bytes, std::string name,
                   const FileOptions& options);

  std::uint64_t size_bytes() const override { return bytes_; }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::uint32_t max_reads_in_flight() const override { return options_.max_reads_in_flight; }
  std::uint32_t max_writes_in_flight() const override { return options_.max_writes_in_flight; }
  std::optional<ElementLayout> element_layout() const override;
  std::string name() const override { return name_; }

  const std::vector<ParquetFile>& files() const { return files_; }
  const std::vector<ParquetPart>& parts() const { return parts_; }
  std::uint64_t decoded_groups() const { return decoded_->decoded(); }

 private:
  int decode(std::size_t part, char* records, bool ahead);

  const std::vector<ParquetFile> files_;
  const std::string name_;
  const FileOptions options_;
  std::vector<ParquetPart> parts_;
  std::uint64_t bytes_ = 0;
  std::mutex told_mutex_;
  std::vector<char> told_;  ///< Of which parts it was said that they cannot be decoded.
  std::unique_ptr<DecodedGroups> decoded_;
};

}  // namespace tiermap
