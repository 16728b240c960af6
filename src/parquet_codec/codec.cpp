// What the library exports, and how exceptions end there.
#include "store/parquet/codec.hpp"

#include <arrow/memory_pool.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "parquet_codec/column_file.hpp"
#include "parquet_codec/column_type.hpp"
#include "parquet_codec/column_values.hpp"
#include "parquet_codec/store_file.hpp"
#include "tiermap/version.hpp"

namespace tiermap::parquet_codec {
namespace {

/// Of a chunk that is read: what lies in memory of it beside the page that is decoded.
constexpr std::int64_t read_bytes = 1 << 20;

/// The failure that a call ends with, in one line.
template <typename Call>
ParquetFailure failure_of(Call&& call) noexcept {
  try {
    call();
    return {};
  } catch (const std::exception& error) {
    std::string text = *error.what() == '\0' ? "Arrow does not say why" : error.what();
    constexpr std::size_t most = 200;
    if (text.size() > most) {
      text = text.substr(0, most) + "...";
    }
    std::replace_if(
        text.begin(), text.end(), [](char character) { return static_cast<unsigned char>(character) < 0x20; }, ' ');
    return text;
  } catch (...) {
    return "Arrow does not say why";
  }
}

class Reader final : public ParquetReader {
 public:
  explicit Reader(std::shared_ptr<Store> file) : reader_(open(std::move(file))) {
    const auto metadata = reader_->metadata();
    for (int column = 0; column < metadata->num_columns(); ++column) {
      columns_.push_back(describe_column(*metadata->schema()->Column(column)));
    }
    for (int number = 0; number < metadata->num_row_groups(); ++number) {
      groups_.push_back(describe(*metadata->RowGroup(number), number));
    }
    require_same_rows(metadata->num_rows());
  }

  const std::vector<ParquetColumn>& columns() const noexcept override { return columns_; }
  const std::vector<ParquetGroup>& groups() const noexcept override { return groups_; }

  ParquetFailure decode(std::size_t group, std::size_t column, const ParquetValues& to) const noexcept override {
    return failure_of([&] {
      const auto chunk = reader_->RowGroup(static_cast<int>(group))->Column(static_cast<int>(column));
      read_values(*chunk, columns_[column], groups_[group].rows, to);
    });
  }

  ParquetFailure encode(std::size_t group, std::size_t column, const ParquetValues& from,
                        std::string& file) const noexcept override {
    return failure_of([&] { file = encode_column(*reader_, group, column, columns_[column], from); });
  }

 private:
  static std::unique_ptr<::parquet::ParquetFileReader> open(std::shared_ptr<Store> file) {
    ::parquet::ReaderProperties properties(::arrow::system_memory_pool());
    properties.enable_buffered_stream();
    properties.set_buffer_size(read_bytes);
    properties.set_page_checksum_verification(true);
    return ::parquet::ParquetFileReader::Open(std::make_shared<StoreFile>(std::move(file)), properties);
  }

  ParquetGroup describe(const ::parquet::RowGroupMetaData& group, int number) const {
    ParquetGroup described;
    if (group.num_columns() != static_cast<int>(columns_.size())) {
      throw std::runtime_error("a row group has other columns than the file");
    }
    if (group.num_rows() < 0) {
      throw std::runtime_error("row group " + std::to_string(number) + " has " + std::to_string(group.num_rows()) +
                               " rows");
    }
    described.rows = static_cast<std::uint64_t>(group.num_rows());
    for (int column = 0; column < group.num_columns(); ++column) {
      const ParquetColumn& its = columns_[static_cast<std::size_t>(column)];
      const auto chunk = group.ColumnChunk(column);
      if (!its.repeated && chunk->num_values() != group.num_rows()) {
        throw std::runtime_error("row group " + std::to_string(number) + " has " + std::to_string(group.num_rows()) +
                                 " rows, and its column " + its.name + " " + std::to_string(chunk->num_values()) +
                                 " values");
      }
      const auto statistics = its.nullable ? chunk->encoded_statistics() : nullptr;
      described.nulls.push_back(statistics != nullptr && statistics->has_null_count ? statistics->null_count : -1);
    }
    return described;
  }

  /// Whoever believed one of two numbers would miss rows without a word.
  void require_same_rows(std::int64_t rows_of_file) const {
    __extension__ using Sum = unsigned __int128;  // Of any numbers of so many row groups.
    Sum rows = 0;
    for (const ParquetGroup& group : groups_) {
      rows += group.rows;
    }
    if (rows_of_file < 0 || rows != static_cast<Sum>(rows_of_file)) {
      constexpr Sum most = std::numeric_limits<std::int64_t>::max();
      throw std::runtime_error(
          "it says that it has " + std::to_string(rows_of_file) + " rows, and its row groups have " +
          (rows > most ? "more than can be counted" : std::to_string(static_cast<std::uint64_t>(rows)) + " together"));
    }
  }

  const std::unique_ptr<::parquet::ParquetFileReader> reader_;  ///< What it does is thread-safe but for its closing.
  std::vector<ParquetColumn> columns_;
  std::vector<ParquetGroup> groups_;
};

class Codec final : public ParquetCodec {
 public:
  ParquetFailure open(std::shared_ptr<Store> file, std::unique_ptr<ParquetReader>& reader) const noexcept override {
    return failure_of([&] { reader = std::make_unique<Reader>(std::move(file)); });
  }
  ParquetFailure make(const std::vector<ParquetColumn>& columns, const std::string& compression, std::uint64_t rows,
                      std::string& file) const noexcept override {
    return failure_of([&] { file = make_file(columns, compression, rows); });
  }
};

}  // namespace
}  // namespace tiermap::parquet_codec

extern "C" __attribute__((visibility("default"))) const tiermap::ParquetCodec* tiermap_parquet_codec(
    const char* tiermap_version, int codec_version) {
  static const tiermap::parquet_codec::Codec codec;
  const bool same =
      std::strcmp(tiermap_version, TIERMAP_VERSION) == 0 && codec_version == tiermap::parquet_codec_version;
  return same ? &codec : nullptr;
}
