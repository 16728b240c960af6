// Parquet files put together from column chunks that are encoded already: those of another file, byte for byte, and new
// ones. Arrow can only encode a file from beginning to end; what does not change would be decoded and encoded for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "store/parquet/compact_thrift.hpp"

namespace tiermap {

/// Fields of Parquet's metadata (parquet.thrift) by the numbers that they have there.
namespace parquet_field {
inline constexpr std::int16_t file_rows = 3, file_groups = 4;
inline constexpr std::int16_t group_chunks = 1, group_bytes = 2, group_rows = 3, group_sorting = 4, group_offset = 5,
                              group_compressed_bytes = 6, group_ordinal = 7;
inline constexpr std::int16_t chunk_path = 1, chunk_offset = 2, chunk_metadata = 3, chunk_offset_index = 4,
                              chunk_offset_index_bytes = 5, chunk_column_index = 6, chunk_column_index_bytes = 7,
                              chunk_encryption = 8;
inline constexpr std::int16_t column_values = 5, column_uncompressed_bytes = 6, column_compressed_bytes = 7,
                              column_data_page = 9, column_index_page = 10, column_dictionary_page = 11,
                              column_bloom = 14, column_bloom_bytes = 15;
inline constexpr std::int16_t index_pages = 1, page_offset = 1;
}  // namespace parquet_field

/// Bytes of a Parquet file, in memory or behind a descriptor.
class ParquetSource {
 public:
  ParquetSource(std::string_view memory, std::string name)
      : memory_(memory), bytes_(memory.size()), name_(std::move(name)) {}
  ParquetSource(int descriptor, std::uint64_t bytes, std::string name)
      : descriptor_(descriptor), bytes_(bytes), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  /// Throws StoreError for what lies outside, and for what cannot be read.
  std::string read(std::int64_t offset, std::int64_t bytes) const;
  void copy(std::int64_t offset, std::int64_t bytes, int to, std::uint64_t to_offset) const;
  /// What its end says: the tree of FileMetaData. Throws StoreError, for encrypted files too.
  ThriftValue metadata() const;

 private:
  void require_inside(std::int64_t offset, std::int64_t bytes) const;

  std::string_view memory_;
  int descriptor_ = -1;
  std::uint64_t bytes_;
  std::string name_;
};

/// Writes to a descriptor that nobody else has: chunks in the order of groups and columns, then finish(). All throw
/// StoreError that names the file.
class ParquetAssembly {
 public:
  ParquetAssembly(int descriptor, std::string name);

  /// Copies a chunk, and makes of its metadata (a ColumnChunk) what they are here. Of one that stays what it was,
  /// `with_indexes`, finish() copies the indexes of its pages and its Bloom filter; of others they are left out.
  void add_chunk(ThriftValue& chunk, const ParquetSource& source, bool with_indexes);
  /// After its chunks: what a RowGroup says of their sizes and place.
  void finish_group(ThriftValue& group) const;
  /// Writes what comes behind the data. `metadata` has the row groups whose chunks were added.
  void finish(ThriftValue& metadata, const ParquetSource& source);

 private:
  void append(std::string_view bytes);
  void add_indexes(ThriftValue& chunk, const ParquetSource& source, std::int64_t moved);
  std::int64_t copy(const ParquetSource& source, std::int64_t offset, std::int64_t bytes);

  const int descriptor_;
  const std::string name_;
  std::int64_t end_ = 0;
  std::vector<std::pair<bool, std::int64_t>> moved_;  ///< Of chunks as they were added: with indexes, and how far.
};

}  // namespace tiermap
