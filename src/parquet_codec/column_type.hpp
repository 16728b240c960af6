// Parquet's types in numpy's words, and back.
#pragma once

#include <parquet/schema.h>

#include <string>

#include "store/parquet/codec.hpp"

namespace tiermap::parquet_codec {

ParquetColumn describe_column(const ::parquet::ColumnDescriptor& column);

/// A column that is to be made; none for types that are not made.
::parquet::schema::NodePtr make_column(const std::string& name, const std::string& type);

}  // namespace tiermap::parquet_codec
