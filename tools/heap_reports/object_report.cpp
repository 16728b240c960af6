// `tiermap heap ls`.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "heap_reports/json.hpp"
#include "heap_reports/reports.hpp"

namespace tiermap {
namespace {

/// A longer text stands out of its column: one would make every line as long.
constexpr std::size_t widest_column = 40;

const char* kind_of(const HeapObject& object) {
  return object.unique ? "unique" : object.count > 1 ? "array" : "object";
}

nlohmann::ordered_json describe_object(const HeapObject& object) {
  return {{"name", object.unique ? nlohmann::ordered_json() : nlohmann::ordered_json(object.name)},
          {"kind", kind_of(object)},
          {"type", object.type_name},
          {"number", object.count},
          {"bytes", object.count * object.size_bytes},
          {"offset", object.offset},
          {"alignment", object.alignment},
          {"description", object.description}};
}

void print_table(const std::vector<HeapObject>& objects) {
  std::vector<std::vector<std::string>> rows = {{"NAME", "KIND", "NUMBER", "BYTES", "DESCRIPTION", "TYPE"}};
  for (const HeapObject& object : objects) {
    rows.push_back({object.unique ? "-" : shown(object.name), kind_of(object), std::to_string(object.count),
                    std::to_string(object.count * object.size_bytes), shown(object.description),
                    shown(object.type_name)});
  }
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], std::min(row[column].size(), widest_column));
    }
  }
  for (const auto& row : rows) {
    fmt::print("{:{}}  {:{}}  {:>{}}  {:>{}}  {:{}}  {}\n", row[0], widths[0], row[1], widths[1], row[2], widths[2],
               row[3], widths[3], row[4], widths[4], row[5]);
  }
}

/// How many bytes a control has that begins the text in UTF-8: those that terminals obey too (U+0080 to U+009F), and
/// those that turn the direction of writing (U+202A to U+202E, U+2066 to U+2069). 0 if none does.
std::size_t hidden_bytes(std::string_view text) {
  const auto byte = [text](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) <= 0x9f) {
    return 2;
  }
  const bool turns = (byte(1) == 0x80 && byte(2) >= 0xaa && byte(2) <= 0xae) ||
                     (byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9);
  return byte(0) == 0xe2 && turns ? 3 : 0;
}

}  // namespace

std::string shown(const std::string& text) {
  std::string plain = text;
  std::ranges::replace_if(plain, [](unsigned char letter) { return letter < ' ' || letter == 0x7f; }, '?');
  for (std::size_t at = 0; at < plain.size(); ++at) {
    if (const std::size_t bytes = hidden_bytes(std::string_view(plain).substr(at)); bytes != 0) {
      plain.replace(at, bytes, "?");
    }
  }
  return plain;
}

nlohmann::ordered_json as_json(const std::vector<HeapObject>& objects) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  std::ranges::transform(objects, std::back_inserter(list), describe_object);
  return list;
}

void print_heap_json(const nlohmann::ordered_json& report) {
  fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_objects(const std::vector<HeapObject>& objects, bool json) {
  if (!json) {
    print_table(objects);
    return;
  }
  print_heap_json({{"objects", as_json(objects)}});
}

}  // namespace tiermap
