#include "store/parquet/creation.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <vector>

#include "store/file_open.hpp"
#include "store/parquet/assembly.hpp"
#include "store/parquet/library.hpp"
#include "store/parquet/new_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t usual_group_bytes = 4 << 20;

[[noreturn]] void refuse_creation(const StoreUrl& url, const std::string& problem, int error_number = EINVAL) {
  throw StoreError(error_number, "store '" + url.text + "': " + problem);
}

/// A file in memory that has one row group of zeros.
class ZeroFile {
 public:
  ZeroFile(const ParquetCodec& codec, const std::vector<ParquetColumn>& columns, const std::string& compression,
           std::uint64_t rows, const StoreUrl& url) {
    if (const ParquetFailure failure = codec.make(columns, compression, rows, bytes_); !failure.empty()) {
      refuse_creation(url, failure);
    }
  }

  const std::string& bytes() const { return bytes_; }

  void add_to(ParquetAssembly& assembly, std::vector<ThriftValue>& groups) const {
    const ParquetSource source(bytes_, "new file");
    ThriftValue group = source.metadata().find(parquet_field::file_groups)->items.at(0);
    for (ThriftValue& chunk : group.find(parquet_field::group_chunks)->items) {
      assembly.add_chunk(chunk, source, false);
    }
    assembly.finish_group(group);
    group.remove(parquet_field::group_ordinal);
    groups.push_back(std::move(group));
  }

 private:
  std::string bytes_;
};

/// How the rows of such a file lie: as whoever opens it will find.
ParquetRecords records_of(const ParquetCodec& codec, const ParquetForm& form, const ZeroFile& file,
                          const StoreUrl& url) {
  std::unique_ptr<ParquetReader> reader;
  if (const ParquetFailure failure = open_copy(codec, file.bytes(), reader); !failure.empty()) {
    refuse_creation(url, failure);
  }
  return arrange_records(form, *reader, url.text);
}

std::uint64_t rows_to_make(const ParquetCreation& creation, std::uint64_t bytes, std::uint64_t record,
                           const StoreUrl& url) {
  if (bytes % record != 0 || (bytes == 0 && creation.rows == 0)) {
    refuse_creation(url, std::to_string(bytes) + " bytes are no whole number of rows of " + std::to_string(record) +
                             " bytes: say how many there are to be, rows=1000000");
  }
  const std::uint64_t rows = bytes != 0 ? bytes / record : creation.rows;
  if (creation.rows != 0 && creation.rows != rows) {
    refuse_creation(url, "rows " + std::to_string(creation.rows) + " take " + std::to_string(record) +
                             " bytes each, and the file is to be made with " + std::to_string(bytes) +
                             ": say the same twice");
  }
  if (rows > largest_file_bytes / record) {
    refuse_creation(url, std::to_string(rows) + " rows are more than any file has: choose less", EFBIG);
  }
  return rows;
}

}  // namespace

ParquetCreation parse_parquet_creation(UrlOptions& options, const StoreUrl& url) {
  ParquetCreation creation;
  if (const std::string rows = options.text("rows"); !rows.empty()) {
    const auto result = std::from_chars(rows.data(), rows.data() + rows.size(), creation.rows);
    if (result.ec != std::errc() || result.ptr != rows.data() + rows.size() || creation.rows == 0) {
      refuse_creation(url, "rows '" + rows + "' is no number of rows: choose 1 or more");
    }
  }
  creation.group_bytes = options.size("group", usual_group_bytes);
  if (creation.group_bytes == 0) {
    refuse_creation(url, "group 0 is no size of a row group: choose for example 4MiB");
  }
  creation.compression = options.choice("compression", {"snappy", "none", "gzip", "zstd", "brotli", "lz4"});
  if (creation.compression == "none") {
    creation.compression = "uncompressed";
  }
  return creation;
}

void create_parquet_file(const ParquetCodec& codec, const std::string& path, const ParquetForm& form,
                         const ParquetCreation& creation, const NewStore& made, const StoreUrl& url) {
  std::vector<ParquetColumn> columns;
  for (const ParquetForm::Column& column : form.columns) {
    if (column.type.empty()) {
      refuse_creation(url, "nothing says what column " + column.name + " is to hold: write columns=x:float32,y:int64");
    }
    columns.push_back({column.name, column.type});
  }
  if (columns.empty()) {
    refuse_creation(url, "nothing says what columns are to be made: write columns=x:float32,y:int64");
  }
  if (path_exists(path)) {
    throw_file_error(EEXIST, path, "cannot be created");
  }
  const ParquetRecords records = records_of(codec, form, ZeroFile(codec, columns, creation.compression, 1, url), url);
  const std::uint64_t record = records.bytes;
  const std::uint64_t rows = rows_to_make(creation, made.bytes(), record, url);
  made.check_elements(records.layout(rows));
  const std::uint64_t rows_a_group = std::clamp<std::uint64_t>(creation.group_bytes / record, 1, rows);
  const ZeroFile whole(codec, columns, creation.compression, rows_a_group, url);
  NewParquetFile file(path);
  ParquetAssembly assembly(file.descriptor(), path);
  const ParquetSource source(whole.bytes(), path);
  ThriftValue metadata = source.metadata();
  std::vector<ThriftValue>& groups = metadata.find(parquet_field::file_groups)->items;
  groups.clear();
  for (std::uint64_t row = 0; row + rows_a_group <= rows; row += rows_a_group) {
    whole.add_to(assembly, groups);
  }
  if (const std::uint64_t rest = rows % rows_a_group; rest != 0) {
    ZeroFile(codec, columns, creation.compression, rest, url).add_to(assembly, groups);
  }
  metadata.set_integer(parquet_field::file_rows, static_cast<std::int64_t>(rows));
  assembly.finish(metadata, source);
  file.publish();
}

}  // namespace tiermap
