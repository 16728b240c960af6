// Columns side by side: how the values of a row lie in a record.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "store/parquet/codec.hpp"
#include "store/store_url.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// What a URL says of columns and records: ?columns=x,y:float32&align=on&nulls=nan.
struct ParquetForm {
  struct Column {
    std::string name;
    std::string type;  ///< Empty where the URL says none.
  };
  std::vector<Column> columns;  ///< Empty where the URL says none: all that there are.
  bool aligned = false;         ///< Fields at multiples of their size, as C lays out a struct; otherwise packed.
  std::string null;             ///< Empty where nulls are refused.
};

/// Throws StoreError (EINVAL).
ParquetForm parse_parquet_form(UrlOptions& options, const StoreUrl& url);

/// A column as a field of records.
struct ParquetField {
  ParquetColumn column;
  std::size_t number = 0;           ///< Of the column in the file.
  std::uint64_t offset = 0;         ///< In a record.
  std::optional<std::string> null;  ///< The bytes that a null is taken for.

  const char* null_bytes() const { return null ? null->data() : nullptr; }
};

struct ParquetRecords {
  std::vector<ParquetField> fields;
  std::uint64_t bytes = 0;  ///< Of a record.

  /// Of so many rows: where all fields are of one type, an array of that type, else of records.
  ElementLayout layout(std::uint64_t rows) const;
};

/// Throws StoreError that names the file and the remedy: for columns that are not there, listing those that are; for
/// types that have no fixed size; for nulls that nothing is said of.
ParquetRecords arrange_records(const ParquetForm& form, const ParquetReader& reader, const std::string& file);

}  // namespace tiermap
