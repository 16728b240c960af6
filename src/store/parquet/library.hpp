// libtiermap_parquet, loaded when the first parquet: URL is opened: who opens none need not have it, nor Arrow.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/parquet/codec.hpp"

namespace tiermap {

/// Throws StoreError (ENOTSUP) that names the URL, and says where it was looked for and how it is got. Thread-safe.
const ParquetCodec& parquet_codec(const std::string& url);

/// ParquetCodec::open() of a copy of `file`, which is in memory.
ParquetFailure open_copy(const ParquetCodec& codec, const std::string& file, std::unique_ptr<ParquetReader>& reader);

}  // namespace tiermap
