// The file `_metadata` of a directory that LLNL/umap's SparseStore makes: two decimal numbers in lines of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tiermap::umap_interface {

inline constexpr const char* directory_metadata_name = "_metadata";
inline constexpr std::uint64_t largest_directory_bytes = 1ULL << 60;

struct DirectoryMetadata {
  std::uint64_t file_bytes = 0;      ///< The size of each data file.
  std::uint64_t capacity_bytes = 0;  ///< The larger of that and the region's size.
  bool operator==(const DirectoryMetadata&) const = default;
};

/// What the text says, if it is two numbers that can be such sizes.
std::optional<DirectoryMetadata> parse_directory_metadata(std::string_view text);

/// Of the directory that is open as `directory`; nothing if it has no such file. `path` is for messages. Throws
/// StoreError.
std::optional<DirectoryMetadata> load_directory_metadata(int directory, const std::string& path);

/// Replaces it, durably, in one step. Throws StoreError; then the old one stays.
void save_directory_metadata(int directory, const std::string& path, const DirectoryMetadata& metadata);

/// What a new directory gets: files of `file_bytes` rounded up to pages, and doubled until they are at most 1,024, or
/// of 128 MiB or more and at most 65,536. Throws StoreError.
DirectoryMetadata new_directory_metadata(const std::string& path, std::uint64_t region_bytes, std::uint64_t page_bytes,
                                         std::uint64_t file_bytes);

}  // namespace tiermap::umap_interface
