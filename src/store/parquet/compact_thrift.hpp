// Thrift's compact protocol, in which Parquet's metadata are: read as a tree whatever it means, and written again as it
// was but for what was changed in it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tiermap {

enum class ThriftType : std::uint8_t {
  yes = 1,  ///< A boolean's value is in its type.
  no = 2,
  byte = 3,
  int16 = 4,
  int32 = 5,
  int64 = 6,
  number = 7,  ///< Floating-point.
  binary = 8,
  list = 9,
  set = 10,
  structure = 12,
};

struct ThriftValue {
  ThriftType type = ThriftType::structure;
  ThriftType item_type = ThriftType::structure;  ///< Of a list or set.
  std::int64_t integer = 0;                      ///< Bytes and integers.
  std::string bytes;                             ///< Binary; of floating-point numbers their eight bytes.
  std::vector<ThriftValue> items;                ///< Of a list or set; of a structure its fields.
  std::vector<std::int16_t> numbers;             ///< Of a structure's fields, rising.

  /// A field of a structure, or nullptr.
  ThriftValue* find(std::int16_t number);
  const ThriftValue* find(std::int16_t number) const;
  /// What an integer field says, or `missing`.
  std::int64_t integer_at(std::int16_t number, std::int64_t missing) const;
  /// Gives a field of integers another value, and makes it where there is none.
  void set_integer(std::int16_t number, std::int64_t value);
  void remove(std::int16_t number);
};

/// A structure at the beginning of `text`, and how many bytes it takes. Throws StoreError (EINVAL) that names `file`
/// for what is none.
std::pair<ThriftValue, std::size_t> parse_thrift(std::string_view text, const std::string& file);

std::string format_thrift(const ThriftValue& structure);

}  // namespace tiermap
