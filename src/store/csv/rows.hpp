// The rows of a text file with delimiters (RFC 4180, and what is usual beside it), one after the other.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "store/csv/text.hpp"

namespace tiermap {

struct CsvField {
  std::string_view text;  ///< Without its quotes; a doubled quote in it is still doubled.
  bool quoted = false;
};

/// Lines may end as on any system, each in its own way, and lines without anything are no rows. A field that begins
/// with a quote goes to the next single one, over delimiters and ends of lines. One thread at a time.
class CsvRows {
 public:
  enum class Next : std::uint8_t {
    row,
    end,
    too_long,  ///< A row is longer than most_row_bytes, or a quote that opens is not closed.
    failed     ///< error().
  };
  static constexpr std::uint64_t most_row_bytes = 1 << 20;

  /// From an offset at which a row begins. So many `bytes` from there on are likely to be read.
  CsvRows(const CsvText& text, char delimiter, std::uint64_t offset, std::uint64_t bytes);

  /// The next row, until which fields() are as they were.
  Next next();
  const std::vector<CsvField>& fields() const noexcept { return fields_; }
  /// Where the row begins in the file, and in which line, counted from 1 where this began.
  std::uint64_t row_offset() const noexcept { return text_offset_ + row_begin_; }
  std::uint64_t row_line() const noexcept { return row_line_; }
  int error() const noexcept { return error_; }

 private:
  const char* take_row(const char* at);
  const char* take_field(const char* at);
  bool fill();

  const CsvText& source_;
  const std::size_t piece_bytes_;
  const char delimiter_;
  std::vector<char> text_;
  std::uint64_t text_offset_;  ///< In the file, of the text's first byte.
  std::uint64_t text_bytes_ = 0;
  std::uint64_t row_begin_ = 0;  ///< In the text.
  std::uint64_t position_ = 0;
  std::uint64_t row_line_ = 1;
  std::uint64_t line_ = 1;
  std::uint64_t lines_in_row_ = 0;
  bool at_end_ = false;  ///< The text goes to the file's end.
  int error_ = 0;
  std::vector<CsvField> fields_;
};

}  // namespace tiermap
