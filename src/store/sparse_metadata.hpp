// The metadata file of a sparse store: 64 bytes, little-endian, checksummed, replaced as a whole. docs/stores.md has it
// byte by byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tiermap {

inline constexpr std::uint32_t sparse_metadata_version = 1;
inline constexpr std::size_t sparse_metadata_bytes = 64;
inline constexpr char sparse_metadata_name[] = "metadata";
inline constexpr std::uint64_t least_segment_bytes = 4096;
inline constexpr std::uint64_t largest_sparse_bytes = 1ULL << 62;

struct SparseMetadata {
  std::uint64_t segment_bytes = 0;   ///< A multiple of 4096, of every segment file.
  std::uint64_t capacity_bytes = 0;  ///< What size_bytes may grow to without a resize.
  std::uint64_t size_bytes = 0;      ///< At most the capacity.
  bool discarding = false;           ///< A cut is under way: what lies past size_bytes has to be discarded before use.

  bool operator==(const SparseMetadata&) const = default;
};

/// The file's 64 bytes.
std::array<std::byte, sparse_metadata_bytes> encode_sparse_metadata(const SparseMetadata& metadata);

/// The reverse. Throws StoreError that names `path`, what is wrong (truncated, not a metadata file, of a later version,
/// damaged, impossible values) and the remedy.
SparseMetadata decode_sparse_metadata(std::span<const std::byte> bytes, const std::string& path);

/// Reads the file in `directory`, open as a descriptor; `path` is for messages. Throws StoreError, ENOENT when there is
/// none.
SparseMetadata load_sparse_metadata(int directory, const std::string& path);

/// Replaces the file at once and durably: a temporary file, fsync, rename, fsync of the directory. After a crash at any
/// instant there is the old one or the new one. Returns 0 or a negative errno value.
int store_sparse_metadata(int directory, const SparseMetadata& metadata) noexcept;

}  // namespace tiermap
