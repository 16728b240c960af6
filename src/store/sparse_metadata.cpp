#include "store/sparse_metadata.hpp"

#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "store/directory_entries.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr char magic[] = "TIERSPRS";
constexpr std::size_t magic_bytes = 8;
constexpr std::size_t version_at = 8;
constexpr std::size_t flags_at = 12;
constexpr std::size_t segment_at = 16;
constexpr std::size_t capacity_at = 24;
constexpr std::size_t size_at = 32;
constexpr std::size_t reserved_at = 40;
constexpr std::size_t checksum_at = 56;
constexpr std::uint64_t discarding_flag = 1;
constexpr char temporary_name[] = "metadata.new";

using Bytes = std::array<std::byte, sparse_metadata_bytes>;

void put(Bytes& bytes, std::size_t at, std::size_t count, std::uint64_t value) {
  for (std::size_t index = 0; index < count; ++index) {
    bytes[at + index] = static_cast<std::byte>(value >> (8 * index) & 0xff);
  }
}

std::uint64_t get(std::span<const std::byte> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t index = 0; index < count; ++index) {
    value |= std::to_integer<std::uint64_t>(bytes[at + index]) << (8 * index);
  }
  return value;
}

[[noreturn]] void refuse_metadata(const std::string& path, const std::string& why) {
  throw StoreError(EINVAL, path + " " + why);
}

constexpr char restore[] = ": restore the file from a copy, or create the store anew elsewhere";

}  // namespace

std::array<std::byte, sparse_metadata_bytes> encode_sparse_metadata(const SparseMetadata& metadata) {
  Bytes bytes = {};
  std::memcpy(bytes.data(), magic, magic_bytes);
  put(bytes, version_at, 4, sparse_metadata_version);
  put(bytes, flags_at, 4, metadata.discarding ? discarding_flag : 0);
  put(bytes, segment_at, 8, metadata.segment_bytes);
  put(bytes, capacity_at, 8, metadata.capacity_bytes);
  put(bytes, size_at, 8, metadata.size_bytes);
  put(bytes, checksum_at, 8, XXH3_64bits(bytes.data(), checksum_at));
  return bytes;
}

SparseMetadata decode_sparse_metadata(std::span<const std::byte> bytes, const std::string& path) {
  if (bytes.size() < version_at + 4) {
    refuse_metadata(path, "is truncated: it has " + std::to_string(bytes.size()) + " bytes instead of 64" + restore);
  }
  if (std::memcmp(bytes.data(), magic, magic_bytes) != 0) {
    refuse_metadata(path, "is not the metadata of a sparse store: name the directory of one");
  }
  // Before anything else, since a later version may have another length and another checksum.
  const std::uint64_t version = get(bytes, version_at, 4);
  if (version > sparse_metadata_version) {
    refuse_metadata(path, "is of version " + std::to_string(version) + " and this program reads up to version " +
                              std::to_string(sparse_metadata_version) + ": use a newer version of Tiermap");
  }
  if (bytes.size() != sparse_metadata_bytes) {
    refuse_metadata(path, (bytes.size() < sparse_metadata_bytes ? "is truncated: it has " : "is damaged: it has ") +
                              std::to_string(bytes.size()) + " bytes instead of 64" + restore);
  }
  if (get(bytes, checksum_at, 8) != XXH3_64bits(bytes.data(), checksum_at)) {
    refuse_metadata(path, std::string("is damaged: its checksum is wrong") + restore);
  }
  SparseMetadata metadata;
  metadata.segment_bytes = get(bytes, segment_at, 8);
  metadata.capacity_bytes = get(bytes, capacity_at, 8);
  metadata.size_bytes = get(bytes, size_at, 8);
  metadata.discarding = (get(bytes, flags_at, 4) & discarding_flag) != 0;
  const bool reserved_used = get(bytes, reserved_at, 8) != 0 || get(bytes, reserved_at + 8, 8) != 0 ||
                             get(bytes, flags_at, 4) > discarding_flag;
  if (version == 0 || reserved_used || metadata.segment_bytes < least_segment_bytes ||
      metadata.segment_bytes % least_segment_bytes != 0 || metadata.segment_bytes > largest_sparse_bytes ||
      metadata.capacity_bytes > largest_sparse_bytes || metadata.size_bytes > metadata.capacity_bytes) {
    refuse_metadata(path, std::string("is damaged: its values are impossible") + restore);
  }
  return metadata;
}

SparseMetadata load_sparse_metadata(int directory, const std::string& path) {
  const std::string file = path + "/" + sparse_metadata_name;
  const FileDescriptor descriptor(::openat(directory, sparse_metadata_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor.valid()) {
    throw_file_error(errno, file, "cannot be opened");
  }
  std::array<std::byte, 2 * sparse_metadata_bytes> bytes;
  const std::int64_t got = read_fully(descriptor.get(), bytes.data(), bytes.size(), 0);
  if (got < 0) {
    throw_file_error(static_cast<int>(-got), file, "cannot be read");
  }
  return decode_sparse_metadata(std::span<const std::byte>(bytes.data(), static_cast<std::size_t>(got)), file);
}

int store_sparse_metadata(int directory, const SparseMetadata& metadata) noexcept {
  const int result = replace_file(directory, sparse_metadata_name, temporary_name, encode_sparse_metadata(metadata));
  return result == 0 ? synchronise(directory, true) : result;
}

}  // namespace tiermap
