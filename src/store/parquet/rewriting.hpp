// A Parquet file with other values: what changed is encoded anew, all else carried over as it is.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "store/overlay_store.hpp"
#include "store/parquet/new_file.hpp"
#include "store/parquet/rows_store.hpp"

namespace tiermap {

/// What one of the files in `rows` is to become, behind `descriptor` and with the name `path`, by what is in `changes`,
/// which lies over them; nothing where no value differs, unless it is to be made `anyway`. Throws StoreError.
std::optional<NewParquetFile> rewrite_parquet_file(ParquetRowsStore& rows, OverlayStore& changes, std::size_t file,
                                                   int descriptor, const std::string& path, bool anyway);

}  // namespace tiermap
