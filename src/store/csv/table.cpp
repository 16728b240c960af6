#include "store/csv/table.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <utility>

#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t most_listed = 30;
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// Before it is taken for text. Returns where that begins.
std::uint64_t check_text_beginning(const std::string& path, const CsvText& source) {
  std::array<char, 3> beginning{};
  const std::int64_t got = source.read(beginning.data(), beginning.size(), 0);
  if (got < 0) {
    throw_file_error(static_cast<int>(-got), path, "cannot be read");
  }
  const std::string_view text(beginning.data(), static_cast<std::size_t>(got));
  if (text.starts_with("\x1f\x8b")) {
    throw StoreError(EINVAL, path + " is compressed by gzip: unpack it with gunzip");
  }
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
    throw StoreError(EINVAL, path + " is text in UTF-16: convert it with iconv -f UTF-16 -t UTF-8");
  }
  return text == byte_order_mark ? byte_order_mark.size() : 0;
}

std::string without_doubled_quotes(const CsvField& field) {
  std::string text(field.quoted ? field.text : trimmed(field.text));
  for (std::size_t at = text.find("\"\""); field.quoted && at != std::string::npos; at = text.find("\"\"", at + 1)) {
    text.erase(at, 1);
  }
  return text;
}

bool all_numbers(const std::vector<CsvField>& fields) {
  const CsvNumber& any = *find_csv_number("float64");
  std::array<std::byte, sizeof(double)> number{};
  return std::all_of(fields.begin(), fields.end(), [&](const CsvField& field) {
    const std::string_view text = trimmed(field.text);
    return is_missing(text) || any.decode(text, number.data());
  });
}

}  // namespace

CsvTable::CsvTable(std::string path, const CsvText& text, const CsvForm& form)
    : path_(std::move(path)), number_(*form.number), delimiter_(form.delimiter) {
  if (!form.missing.empty()) {
    missing_.resize(number_.bytes);
    if (!number_.decode(form.missing, missing_.data())) {
      throw StoreError(EINVAL, path_ + ": missing '" + in_one_line(form.missing) + "' is no " + number_.name +
                                   ": choose a number of that type");
    }
  }
  CsvRows rows(text, delimiter_, check_text_beginning(path_, text), text.bytes());
  CsvRows::Next next = rows.next();
  if (next == CsvRows::Next::end) {
    throw StoreError(EINVAL, path_ + " has no rows: choose another file");
  }
  if (next == CsvRows::Next::row) {
    const bool names = form.header == CsvForm::Header::there ||
                       (form.header == CsvForm::Header::found_out && !all_numbers(rows.fields()));
    choose_columns(rows.fields(), names, form.columns);
    next = names ? rows.next() : next;
  }
  read_all(rows, next);
}

void CsvTable::choose_columns(const std::vector<CsvField>& first_row, bool names, const std::string& columns) {
  for (const CsvField& field : first_row) {
    names_.push_back(names ? without_doubled_quotes(field) : std::string());
  }
  std::string_view rest = columns;
  while (!rest.empty()) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    chosen_.push_back(find_column(std::string(rest.substr(0, comma))));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  for (std::uint64_t column = 0; columns.empty() && column < names_.size(); ++column) {
    chosen_.push_back(column);
  }
}

/// By its name, or by its number from 0 on.
std::uint64_t CsvTable::find_column(const std::string& wanted) const {
  const auto found = wanted.empty() ? names_.end() : std::find(names_.begin(), names_.end(), wanted);
  if (found != names_.end()) {
    if (std::find(found + 1, names_.end(), wanted) != names_.end()) {
      throw StoreError(
          EINVAL, path_ + " has more than one column " + in_one_line(wanted) + ": choose it by its number, from 0 on");
    }
    return static_cast<std::uint64_t>(found - names_.begin());
  }
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), number);
  if (error == std::errc{} && end == wanted.data() + wanted.size() && number < names_.size()) {
    return number;
  }
  std::string list;
  for (std::uint64_t column = 0; column < std::min(names_.size(), most_listed); ++column) {
    list += (list.empty() ? "" : ", ") + column_text(column);
  }
  throw StoreError(ENOENT, path_ + " has no column " + in_one_line(wanted) + ": choose among " + list +
                               (names_.size() > most_listed ? " and others" : ""));
}

std::string CsvTable::column_text(std::uint64_t column) const {
  return names_[column].empty() ? std::to_string(column) : in_one_line(names_[column]);
}

CsvTable::Problem CsvTable::decode(const std::vector<CsvField>& fields, std::byte* to) const {
  const bool fewer = fields.size() < names_.size();
  if (fields.size() > names_.size() || (fewer && missing_.empty())) {
    return {Problem::Kind::fields, 0, {}};
  }
  for (const std::uint64_t column : chosen_) {
    const std::string_view text = column < fields.size() ? trimmed(fields[column].text) : std::string_view();
    if (!number_.decode(text, to)) {
      if (!is_missing(text)) {
        return {Problem::Kind::bad, column, text};
      }
      if (missing_.empty()) {
        return {Problem::Kind::missing, column, text};
      }
      std::copy(missing_.begin(), missing_.end(), to);
    }
    to += number_.bytes;
  }
  return {};
}

void CsvTable::read_all(CsvRows& rows, CsvRows::Next next) {
  std::vector<std::byte> row(row_bytes());
  for (; next == CsvRows::Next::row; next = rows.next()) {
    if (const Problem problem = decode(rows.fields(), row.data()); problem.kind != Problem::Kind::none) {
      refuse_row(rows, problem);
    }
    index_.add(rows.row_offset());
  }
  if (next == CsvRows::Next::failed) {
    throw_file_error(-rows.error(), path_, "cannot be read");
  }
  if (next == CsvRows::Next::too_long) {
    refuse(rows.row_line(), "begins a row without an end within 1 MiB: close its quotes, or correct its line ends");
  }
}

void CsvTable::refuse(std::uint64_t line, const std::string& why) const {
  throw StoreError(EINVAL, path_ + ": line " + std::to_string(line) + " " + why);
}

void CsvTable::refuse_row(const CsvRows& rows, const Problem& problem) const {
  const std::uint64_t line = rows.row_line();
  if (problem.kind == Problem::Kind::fields) {
    refuse(line, "has " + std::to_string(rows.fields().size()) + " fields, and the first one has " +
                     std::to_string(names_.size()) + ": correct it, or say by delimiter= what is between them");
  }
  const std::string where = "has in column " + column_text(problem.column);
  if (problem.kind == Problem::Kind::missing) {
    refuse(line, where + " no number: correct it, or say what is to stand there, such as missing=" +
                     (number_.kind == 'f' ? "nan" : "0"));
  }
  refuse(line, where + " '" + in_one_line(problem.text) + "', which is no " + number_.name +
                   ": correct it, choose another type, or other columns");
}

int CsvTable::read_rows(const CsvText& text, std::uint64_t first, std::uint64_t count, std::byte* to) const {
  const auto [known, offset] = index_.before(first);
  const std::uint64_t end = index_.behind(first + count).value_or(text.bytes());
  CsvRows rows(text, delimiter_, offset, end - offset + 1);  // One more tells how a line ends.
  for (std::uint64_t row = known; row < first + count; ++row) {
    const CsvRows::Next next = rows.next();
    if (next != CsvRows::Next::row) {
      return next == CsvRows::Next::failed ? rows.error() : -EIO;
    }
    if (row >= first) {
      if (decode(rows.fields(), to).kind != Problem::Kind::none) {
        return -EIO;
      }
      to += row_bytes();
    }
  }
  return 0;
}

}  // namespace tiermap
