// What Arrow does for parquet: stores. It is a library of its own, libtiermap_parquet, which who opens such a URL loads
// (library.hpp): nothing but these classes is between it and this library, neither of which is linked to the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tiermap/store.hpp"

namespace tiermap {

/// A column as the file has it: a leaf of its schema.
struct ParquetColumn {
  std::string name;         ///< Of one in a structure with those it lies in, "position.x".
  std::string type;         ///< "int64", "float32", "timestamp[us]": for messages, and for what is made.
  char kind = 'V';          ///< As numpy has them.
  std::uint64_t bytes = 0;  ///< Of a value; 0 if they differ.
  bool nullable = false;
  bool repeated = false;  ///< In a list or a map: any number of values in a row.
};

struct ParquetGroup {
  std::uint64_t rows = 0;
  std::vector<std::int64_t> nulls;  ///< By column; -1 where the file does not say.
};

/// In one line; empty: all went well. No exception crosses the border of a library.
using ParquetFailure = std::string;

/// Values of a column, one a record.
struct ParquetValues {
  char* first = nullptr;
  std::size_t stride = 0;
  const char* null = nullptr;  ///< What a null is taken for, as many bytes as a value; without it there must be none.
};

/// A file that is open for reading. Thread-safe.
class ParquetReader {
 public:
  virtual ~ParquetReader() = default;
  virtual const std::vector<ParquetColumn>& columns() const noexcept = 0;
  virtual const std::vector<ParquetGroup>& groups() const noexcept = 0;
  /// All values of a column in a row group.
  virtual ParquetFailure decode(std::size_t group, std::size_t column, const ParquetValues& to) const noexcept = 0;
  /// The other way: `file` becomes a Parquet file that has this column of this row group alone, with these values, and
  /// is compressed and encoded as the column is there. What was a null, and is what nulls are taken for, stays one.
  virtual ParquetFailure encode(std::size_t group, std::size_t column, const ParquetValues& from,
                                std::string& file) const noexcept = 0;
};

class ParquetCodec {
 public:
  virtual ~ParquetCodec() = default;
  virtual ParquetFailure open(std::shared_ptr<Store> file, std::unique_ptr<ParquetReader>& reader) const noexcept = 0;
  /// `file` becomes one of one row group, all values of which are 0. Of columns only name and type count.
  virtual ParquetFailure make(const std::vector<ParquetColumn>& columns, const std::string& compression,
                              std::uint64_t rows, std::string& file) const noexcept = 0;
};

/// What the library exports. It gives nothing to who was built with another version of this header.
inline constexpr const char* parquet_codec_symbol = "tiermap_parquet_codec";
inline constexpr int parquet_codec_version = 1;
using ParquetCodecFunction = const ParquetCodec* (*)(const char* tiermap_version, int codec_version);

}  // namespace tiermap
