// A field of text as a number of this machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tiermap {

/// A type of numbers by numpy's name.
struct CsvNumber {
  const char* name;
  char kind;  ///< i, u or f.
  std::uint64_t bytes;
  /// Puts the number that all of `text` is to `place`, aligned or not. False if it is none of the type.
  bool (*decode)(std::string_view text, std::byte* place);
};

/// nullptr if there is none of that name.
const CsvNumber* find_csv_number(std::string_view name);
/// "float32, float64 ...", for messages.
const char* csv_number_names();

/// Without spaces around it, and without a plus before digits.
std::string_view trimmed(std::string_view text);
/// Whether it says that there is no number: nothing, NA, N/A, null or NULL.
bool is_missing(std::string_view trimmed_text);

}  // namespace tiermap
