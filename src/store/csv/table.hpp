// Columns of numbers in a text file: which they are, and where its rows are, found by reading all of it once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/csv/number.hpp"
#include "store/csv/row_index.hpp"
#include "store/csv/rows.hpp"

namespace tiermap {

/// How a URL says that a file is to be read.
struct CsvForm {
  enum class Header : std::uint8_t { found_out, there, none };
  std::string columns;  ///< Names or numbers with commas between them; empty for all.
  const CsvNumber* number = nullptr;
  std::string missing;  ///< What stands where no number is; empty: that is refused.
  char delimiter = ',';
  Header header = Header::found_out;
};

class CsvTable {
 public:
  /// Reads all of it, each number of the columns too. Throws StoreError that names file, line, column and remedy.
  CsvTable(std::string path, const CsvText& text, const CsvForm& form);

  std::uint64_t rows() const noexcept { return index_.rows(); }
  std::uint64_t columns() const noexcept { return chosen_.size(); }
  std::uint64_t row_bytes() const noexcept { return columns() * number_.bytes; }
  const CsvNumber& number() const noexcept { return number_; }

  /// Puts rows one behind the other. Returns 0, or a negative errno value: EIO if there are no longer such numbers.
  int read_rows(const CsvText& text, std::uint64_t first, std::uint64_t count, std::byte* to) const;

 private:
  void choose_columns(const std::vector<CsvField>& first_row, bool names, const std::string& columns);
  std::uint64_t find_column(const std::string& wanted) const;
  /// Why a row cannot be decoded, where that is so.
  struct Problem {
    enum class Kind : std::uint8_t { none, fields, missing, bad } kind = Kind::none;
    std::uint64_t column = 0;  ///< Of the file's.
    std::string_view text;
  };
  Problem decode(const std::vector<CsvField>& fields, std::byte* to) const;
  void read_all(CsvRows& rows, CsvRows::Next next);
  [[noreturn]] void refuse(std::uint64_t line, const std::string& why) const;
  [[noreturn]] void refuse_row(const CsvRows& rows, const Problem& problem) const;
  std::string column_text(std::uint64_t column) const;

  const std::string path_;
  const CsvNumber number_;
  const char delimiter_;
  std::vector<std::byte> missing_;     ///< What stands for a number that is missing; empty if that is refused.
  std::vector<std::string> names_;     ///< Of all columns of the file; empty ones without a header.
  std::vector<std::uint64_t> chosen_;  ///< Columns of the file, as they are wanted.
  RowIndex index_;
};

}  // namespace tiermap
