#include "config/size.hpp"

#include <array>
#include <cctype>
#include <cstdio>
#include <limits>
#include <optional>

#include "platform/control_characters.hpp"
#include "platform/memory_promise.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};

constexpr std::uint64_t kilo = 1000;

constexpr std::array units = {
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kibi},
    Unit{"m", kibi* kibi},
    Unit{"g", kibi* kibi* kibi},
    Unit{"t", kibi* kibi* kibi* kibi},
    Unit{"kib", kibi},
    Unit{"mib", kibi* kibi},
    Unit{"gib", kibi* kibi* kibi},
    Unit{"tib", kibi* kibi* kibi* kibi},
    Unit{"pib", kibi* kibi* kibi* kibi* kibi},
    Unit{"kb", kilo},
    Unit{"mb", kilo* kilo},
    Unit{"gb", kilo* kilo* kilo},
    Unit{"tb", kilo* kilo* kilo* kilo},
    Unit{"pb", kilo* kilo* kilo* kilo* kilo},
};

constexpr std::array<std::string_view, 6> binary_unit_names = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};

bool is_digit(char character) {
  return character >= '0' && character <= '9';
}

/// A number as it was written, split at its decimal point, and what follows it in lower case.
struct WrittenNumber {
  std::string_view whole;
  std::string_view fraction;
  std::string unit;
};

std::optional<WrittenNumber> split_number(std::string_view text) {
  WrittenNumber number;
  std::size_t position = 0;
  const auto take_digits = [&] {
    const std::size_t start = position;
    while (position < text.size() && is_digit(text[position])) {
      ++position;
    }
    return text.substr(start, position - start);
  };
  number.whole = take_digits();
  if (number.whole.empty()) {
    return std::nullopt;
  }
  if (position < text.size() && text[position] == '.') {
    ++position;
    number.fraction = take_digits();
    if (number.fraction.empty()) {
      return std::nullopt;
    }
  }
  if (position < text.size() && text[position] == ' ') {
    ++position;
    if (position == text.size()) {
      return std::nullopt;
    }
  }
  for (; position < text.size(); ++position) {
    number.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(text[position])));
  }
  return number;
}

/// whole.fraction times unit_bytes, rounded down; nothing if it does not fit. Exact: no floating point.
std::optional<std::uint64_t> multiply(const WrittenNumber& number, std::uint64_t unit_bytes) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t whole = 0;
  for (const char digit : number.whole) {
    const auto value = static_cast<std::uint64_t>(digit - '0');
    if (whole > (most - value) / 10) {
      return std::nullopt;
    }
    whole = whole * 10 + value;
  }
  // From the last digit to the first, so that what is rounded away never reaches a whole byte. No unit is above 2^50.
  std::uint64_t part = 0;
  for (auto digit = number.fraction.rbegin(); digit != number.fraction.rend(); ++digit) {
    part = (static_cast<std::uint64_t>(*digit - '0') * unit_bytes + part) / 10;
  }
  if (whole > (most - part) / unit_bytes) {
    return std::nullopt;
  }
  return whole * unit_bytes + part;
}

[[noreturn]] void throw_not_a_size(std::string_view text, std::string_view what, std::string_view remedy) {
  throw OptionError(std::string(what) + " " + quote_value(text) + " is not a size: " + std::string(remedy));
}

constexpr std::string_view size_remedy = "write a number and a unit, such as 64KiB or 4GiB";
constexpr std::string_view budget_remedy =
    "write a number and a unit, such as 4GiB, or a share of free memory, such as 50%";

std::uint64_t parse(std::string_view text, std::string_view what, std::string_view remedy) {
  if (const auto number = split_number(text)) {
    for (const Unit& unit : units) {
      if (unit.name != number->unit) {
        continue;
      }
      if (const auto bytes = multiply(*number, unit.bytes)) {
        return *bytes;
      }
      throw OptionError(std::string(what) + " " + quote_value(text) +
                        " is more than 64 bits can count: choose less than 16384PiB");
    }
  }
  throw_not_a_size(text, what, remedy);
}

}  // namespace

std::uint64_t parse_size(std::string_view text, std::string_view what) {
  return parse(text, what, size_remedy);
}

std::uint64_t parse_budget(std::string_view text, std::string_view what, std::uint64_t available_bytes) {
  if (text.empty() || text.back() != '%') {
    return parse(text, what, budget_remedy);
  }
  const auto number = split_number(text);
  if (!number || number->unit != "%") {
    throw_not_a_size(text, what, budget_remedy);
  }
  // Millionths of a percent keep the arithmetic whole.
  constexpr std::uint64_t million = 1'000'000;
  const auto share = multiply(*number, million);
  if (!share || *share == 0 || *share > 100 * million) {
    throw OptionError(std::string(what) + " " + quote_value(text) + " is out of range: choose above 0% and up to 100%");
  }
  const std::uint64_t whole_parts = available_bytes / (100 * million);
  const std::uint64_t rest = available_bytes % (100 * million);
  return whole_parts * *share + rest * *share / (100 * million);
}

std::uint64_t parse_budget(std::string_view text, std::string_view what) {
  const bool share = !text.empty() && text.back() == '%';
  return parse_budget(text, what, share ? MemoryPromise::left_bytes() : 0);
}

std::string format_size(std::uint64_t bytes) {
  std::size_t unit = 0;
  while (bytes != 0 && bytes % kibi == 0 && unit + 1 < binary_unit_names.size()) {
    bytes /= kibi;
    ++unit;
  }
  return std::to_string(bytes) + (unit == 0 ? "" : std::string(binary_unit_names[unit]));
}

std::string format_size_rounded(double bytes) {
  std::size_t unit = 0;
  // From 999.5 on, three digits would be rounded up to four.
  while (bytes >= 999.5 && unit + 1 < binary_unit_names.size()) {
    bytes /= static_cast<double>(kibi);
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : bytes >= 0.9995 ? 2 : 3;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f ", decimals, bytes);
  return text.data() + std::string(binary_unit_names[unit]);
}

std::string quote_value(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string quoted = "'" + std::string(text.substr(0, longest));
  hide_control_characters(quoted);
  return quoted + (text.size() > longest ? "...'" : "'");
}

}  // namespace tiermap
