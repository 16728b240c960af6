// What a record is called and what it holds. Both are computed, so that whatever is read can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tiermap {

/// How each record begins. The value follows.
struct RecordHead {
  std::uint64_t key = 0;
  std::uint64_t version = 0;   ///< 1 when it is inserted, one more for each update.
  std::uint64_t checksum = 0;  ///< Of the value, and of key and version.
};

/// Of a record that may lie at any address.
RecordHead head_of(std::span<const std::byte> record) noexcept;

/// Keys and values of a database. Its keys are divided into partitions: ranges of equal width, so that all keys of a
/// partition are below all of the next. In a partition records are numbered from 0 as they are inserted, and a record's
/// key is a permutation of its number: keys come in no order, none comes twice, and none has to be remembered.
class RecordFormat {
 public:
  /// `partitions` is a power of two; `value_bytes` is a positive multiple of 8.
  RecordFormat(std::uint32_t partitions, std::uint64_t value_bytes);

  std::uint32_t partitions() const noexcept { return std::uint32_t{1} << partition_bits_; }
  std::uint64_t record_bytes() const noexcept { return sizeof(RecordHead) + value_bytes_; }

  std::uint64_t key_of(std::uint32_t partition, std::uint64_t number) const noexcept;
  /// The lowest key that a partition may hold.
  std::uint64_t first_key(std::uint32_t partition) const noexcept;

  /// Writes all of the record.
  void fill(std::span<std::byte> record, std::uint64_t key, std::uint64_t version) const noexcept;
  /// Whether it is this record in this version, as its checksum says.
  bool is_whole(std::span<const std::byte> record, std::uint64_t key, std::uint64_t version) const noexcept;
  /// Whether each of its bytes is what fill() writes.
  bool is_right(std::span<const std::byte> record, std::uint64_t key, std::uint64_t version) const noexcept;

 private:
  unsigned partition_bits_;
  std::uint64_t value_bytes_;
};

}  // namespace tiermap
