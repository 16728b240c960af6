// A column's values between Arrow's arrays, in which nulls take no room, and records.
#pragma once

#include <parquet/column_reader.h>
#include <parquet/column_writer.h>

#include <cstdint>

#include "store/parquet/codec.hpp"

namespace tiermap::parquet_codec {

/// Throws an exception of the standard library's for what is damaged, and for nulls where nothing is said of them.
void read_values(::parquet::ColumnReader& reader, const ParquetColumn& column, std::uint64_t rows,
                 const ParquetValues& to);

/// Nulls stay those of `before`, the same column's reader; without one there are none.
void write_values(::parquet::ColumnWriter& writer, ::parquet::ColumnReader* before, const ParquetColumn& column,
                  std::uint64_t rows, const ParquetValues& from);

}  // namespace tiermap::parquet_codec
