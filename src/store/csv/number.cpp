#include "store/csv/number.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstring>
#include <iterator>
#include <limits>
#include <system_error>

namespace tiermap {
namespace {

template <typename Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if constexpr (std::floating_point<Number>) {
    // What is less than the least number of the type is zero, or nearly; what is more than the largest is refused.
    long double wide = 0;
    if (error == std::errc::result_out_of_range && !std::same_as<Number, long double> && parse(text, wide) &&
        std::abs(wide) <= static_cast<long double>(std::numeric_limits<Number>::max())) {
      number = static_cast<Number>(wide);
      return true;
    }
  }
  return error == std::errc{} && end == text.data() + text.size();
}

template <typename Number>
bool decode(std::string_view text, std::byte* place) {
  Number number = 0;
  if (!parse(text, number)) {
    return false;
  }
  std::memcpy(place, &number, sizeof number);
  return true;
}

constexpr CsvNumber numbers[] = {
    {"float32", 'f', 4, decode<float>},        {"float64", 'f', 8, decode<double>},
    {"int8", 'i', 1, decode<std::int8_t>},     {"int16", 'i', 2, decode<std::int16_t>},
    {"int32", 'i', 4, decode<std::int32_t>},   {"int64", 'i', 8, decode<std::int64_t>},
    {"uint8", 'u', 1, decode<std::uint8_t>},   {"uint16", 'u', 2, decode<std::uint16_t>},
    {"uint32", 'u', 4, decode<std::uint32_t>}, {"uint64", 'u', 8, decode<std::uint64_t>},
};

}  // namespace

const CsvNumber* find_csv_number(std::string_view name) {
  const auto* const found = std::find_if(std::begin(numbers), std::end(numbers),
                                         [&](const CsvNumber& number) { return name == number.name; });
  return found == std::end(numbers) ? nullptr : found;
}

const char* csv_number_names() {
  return "float32, float64, int8 to int64 and uint8 to uint64";
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) {
    return {};
  }
  text = text.substr(first, text.find_last_not_of(" \t") - first + 1);
  const bool plus = text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+';
  return plus ? text.substr(1) : text;
}

bool is_missing(std::string_view text) {
  constexpr std::string_view names[] = {"", "NA", "N/A", "null", "NULL"};
  return std::find(std::begin(names), std::end(names), text) != std::end(names);
}

}  // namespace tiermap
