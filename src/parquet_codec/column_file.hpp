// Parquet files that are made in memory: of one column of one row group, to be put into another file, or of zeros.
#pragma once

#include <parquet/file_reader.h>

#include <string>
#include <vector>

#include "store/parquet/codec.hpp"

namespace tiermap::parquet_codec {

/// All throw exceptions of the standard library's.
std::string encode_column(::parquet::ParquetFileReader& before, std::size_t group, std::size_t column,
                          const ParquetColumn& described, const ParquetValues& from);

std::string make_file(const std::vector<ParquetColumn>& columns, const std::string& compression, std::uint64_t rows);

}  // namespace tiermap::parquet_codec
