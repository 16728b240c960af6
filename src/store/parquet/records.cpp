#include "store/parquet/records.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>

#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_listed = 20;

[[noreturn]] void refuse_form(const StoreUrl& url, const std::string& problem) {
  throw StoreError(EINVAL, "store '" + url.text + "': " + problem);
}

ParquetForm::Column parse_column(const std::string& text, const StoreUrl& url) {
  const std::size_t colon = text.find(':');
  ParquetForm::Column column{percent_decode(text.substr(0, colon), url.text),
                             colon == std::string::npos ? "" : text.substr(colon + 1)};
  if (column.name.empty() || (colon != std::string::npos && column.type.empty())) {
    refuse_form(url, "columns '" + text + "' names no column: write columns=x,y or columns=x:float32,y:float32");
  }
  return column;
}

/// Of the numbers that a column can have, the one that is written there; nothing where it cannot have it.
template <typename Value>
std::optional<std::string> parse_null(const std::string& text) {
  Value value = {};
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    return std::nullopt;
  }
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

std::optional<std::string> null_of(const ParquetColumn& column, const std::string& text) {
  const std::string kind = column.kind + std::to_string(column.bytes);
  if (text == "0" && (column.kind == 'V' || kind == "f2")) {
    return std::string(column.bytes, '\0');
  }
  if (kind == "f2" && text == "nan") {
    return std::string("\x00\x7e", 2);
  }
  return kind == "f4"   ? parse_null<float>(text)
         : kind == "f8" ? parse_null<double>(text)
         : kind == "i1" ? parse_null<std::int8_t>(text)
         : kind == "i2" ? parse_null<std::int16_t>(text)
         : kind == "i4" ? parse_null<std::int32_t>(text)
         : kind == "i8" ? parse_null<std::int64_t>(text)
         : kind == "u1" ? parse_null<std::uint8_t>(text)
         : kind == "u2" ? parse_null<std::uint16_t>(text)
         : kind == "u4" ? parse_null<std::uint32_t>(text)
         : kind == "u8" ? parse_null<std::uint64_t>(text)
         : kind == "b1" ? (text == "0" || text == "1" ? std::optional(std::string(1, text[0] - '0')) : std::nullopt)
                        : std::nullopt;
}

std::string names_of(const std::vector<ParquetColumn>& columns) {
  std::string names;
  for (std::size_t number = 0; number < std::min(columns.size(), most_listed); ++number) {
    names += (names.empty() ? "" : ", ") + columns[number].name;
  }
  return names + (columns.size() > most_listed ? " and others" : "");
}

std::size_t find_column(const std::vector<ParquetColumn>& columns, const std::string& name, const std::string& file) {
  const auto bears_it = [&](const ParquetColumn& column) { return column.name == name; };
  const auto found = std::find_if(columns.begin(), columns.end(), bears_it);
  if (found == columns.end()) {
    throw StoreError(ENOENT, file + ": column " + name + " is not there: choose among " + names_of(columns));
  }
  if (const auto count = std::count_if(found, columns.end(), bears_it); count > 1) {
    throw StoreError(EINVAL, file + ": " + std::to_string(count) + " columns are called " + name +
                                 ", and which is meant cannot be said: write the file again with a name for each, or "
                                 "choose others");
  }
  return static_cast<std::size_t>(found - columns.begin());
}

void require_served(const ParquetColumn& column, const std::string& wanted_type, const std::string& file) {
  if (column.type == "int96 timestamps") {
    throw StoreError(ENOTSUP, file + ": column " + column.name +
                                  " holds int96 timestamps, which are no integers of the machine: write the file again "
                                  "with timestamps of 8 bytes, or choose other columns, columns=a,b");
  }
  if (column.repeated || column.bytes == 0) {
    throw StoreError(ENOTSUP, file + ": column " + column.name + " holds " + column.type +
                                  ", which have no fixed size: choose columns of numbers, columns=a,b");
  }
  if (!wanted_type.empty() && wanted_type != column.type) {
    throw StoreError(EINVAL, file + ": column " + column.name + " holds " + column.type + ", not " + wanted_type +
                                 ": leave out the type, or name another column");
  }
}

void require_named_once(const ParquetForm& form, const std::string& file) {
  std::set<std::string_view> names;
  for (const ParquetForm::Column& column : form.columns) {
    if (!names.insert(column.name).second) {
      throw StoreError(EINVAL, file + ": column " + column.name + " is named twice: leave one out");
    }
  }
}

void settle_nulls(ParquetField& field, const ParquetForm& form, const ParquetReader& reader, const std::string& file) {
  if (!field.column.nullable) {
    return;
  }
  if (!form.null.empty()) {
    field.null = null_of(field.column, form.null);
    if (!field.null) {
      throw StoreError(EINVAL, file + ": column " + field.column.name + " holds " + field.column.type +
                                   ", and nulls cannot be " + form.null + " there: choose another value");
    }
    return;
  }
  const std::vector<ParquetGroup>& groups = reader.groups();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    if (groups[group].nulls[field.number] > 0) {
      throw StoreError(EINVAL, file + ": column " + field.column.name + " has " +
                                   std::to_string(groups[group].nulls[field.number]) + " nulls in row group " +
                                   std::to_string(group) + ": say what they are to be taken for, nulls=0 or nulls=nan");
    }
  }
}

/// Of bytes that are no numbers, any place is right.
std::uint64_t alignment_of(const ParquetColumn& column) {
  return column.kind == 'V' ? 1 : column.bytes;
}

void place_fields(ParquetRecords& records, bool aligned) {
  std::uint64_t widest = 1;
  for (ParquetField& field : records.fields) {
    const std::uint64_t alignment = aligned ? alignment_of(field.column) : 1;
    field.offset = round_up(records.bytes, alignment);
    records.bytes = field.offset + field.column.bytes;
    widest = std::max(widest, alignment);
  }
  records.bytes = round_up(records.bytes, widest);
}

}  // namespace

ParquetForm parse_parquet_form(UrlOptions& options, const StoreUrl& url) {
  ParquetForm form;
  const std::string columns = options.text("columns");
  for (std::size_t begin = 0; begin < columns.size() + (options.has("columns") ? 1 : 0);) {
    const std::size_t end = std::min(columns.find(',', begin), columns.size());
    form.columns.push_back(parse_column(columns.substr(begin, end - begin), url));
    begin = end + 1;
  }
  const std::string align = options.text("align");
  if (!align.empty() && align != "on" && align != "off") {
    refuse_form(url, "align '" + align + "' is neither on nor off: choose one");
  }
  form.aligned = align == "on";
  form.null = options.text("nulls");
  return form;
}

ElementLayout ParquetRecords::layout(std::uint64_t rows) const {
  ElementLayout layout;
  layout.row_bytes = bytes;
  const ParquetColumn& first = fields.front().column;
  const bool alike = std::all_of(fields.begin(), fields.end(), [&](const ParquetField& field) {
    return field.column.kind == first.kind && field.column.bytes == first.bytes;
  });
  if (alike) {
    layout.bytes = first.bytes;
    layout.kind = first.kind;
    layout.type = fields.size() == 1
                      ? first.type
                      : std::string(first.bytes == 1 ? "|" : "<") + first.kind + std::to_string(first.bytes);
    layout.shape = {rows};
    if (fields.size() > 1) {
      layout.shape.push_back(fields.size());
    }
    return layout;
  }
  layout.bytes = bytes;
  layout.shape = {rows};
  for (const ParquetField& field : fields) {
    layout.type += (layout.type.empty() ? "{" : ", ") + field.column.name + ":" + field.column.type;
    layout.fields.push_back({field.column.name, field.column.kind, field.column.bytes, field.offset});
  }
  layout.type += "}";
  return layout;
}

ParquetRecords arrange_records(const ParquetForm& form, const ParquetReader& reader, const std::string& file) {
  const std::vector<ParquetColumn>& there = reader.columns();
  std::vector<ParquetForm::Column> wanted = form.columns;
  if (wanted.empty()) {
    for (const ParquetColumn& column : there) {
      wanted.push_back({column.name, ""});
    }
  }
  if (wanted.empty()) {
    throw StoreError(EINVAL, file + " has no columns: name another file");
  }
  require_named_once(form, file);
  ParquetRecords records;
  for (const ParquetForm::Column& column : wanted) {
    ParquetField field;
    field.number = find_column(there, column.name, file);
    field.column = there[field.number];
    require_served(field.column, column.type, file);
    settle_nulls(field, form, reader, file);
    records.fields.push_back(std::move(field));
  }
  place_fields(records, form.aligned);
  return records;
}

}  // namespace tiermap
