// Parquet files that are made: of the columns that the URL names, with all values 0.
#pragma once

#include <cstdint>
#include <string>

#include "store/new_store.hpp"
#include "store/parquet/codec.hpp"
#include "store/parquet/records.hpp"
#include "store/store_url.hpp"

namespace tiermap {

/// What a URL says of a file that is to be made: ?rows=1000000&group=4MiB&compression=zstd.
struct ParquetCreation {
  std::uint64_t rows = 0;         ///< 0 where the URL says none.
  std::uint64_t group_bytes = 0;  ///< Of the records of a row group.
  std::string compression;
};

/// Throws StoreError (EINVAL).
ParquetCreation parse_parquet_creation(UrlOptions& options, const StoreUrl& url);

/// The file has `made.bytes()` bytes of records, which may be 0 where `creation` says how many rows. Throws StoreError,
/// or what `made` says of the elements, and nothing is made then; EEXIST if the name is taken.
void create_parquet_file(const ParquetCodec& codec, const std::string& path, const ParquetForm& form,
                         const ParquetCreation& creation, const NewStore& made, const StoreUrl& url);

}  // namespace tiermap
