// Columns of a text file as a store of numbers, row after row.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "store/csv/table.hpp"
#include "store/csv/text.hpp"
#include "tiermap/store.hpp"

namespace tiermap {

/// For reading only: rows are taken apart as pages of them are read. Reads of a file that has changed since it was
/// opened fail (ESTALE). Thread-safe: nothing changes after the constructor.
class CsvStore final : public Store {
 public:
  CsvStore(CsvText text, CsvTable table, std::string name, std::uint32_t max_reads_in_flight);

  std::uint64_t size_bytes() const override { return table_.rows() * table_.row_bytes(); }
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override;
  std::uint32_t max_reads_in_flight() const override { return max_reads_in_flight_; }
  std::optional<ElementLayout> element_layout() const override;
  std::string name() const override { return name_; }

 private:
  const CsvText text_;
  const CsvTable table_;
  const std::string name_;
  const std::uint32_t max_reads_in_flight_;
};

}  // namespace tiermap
