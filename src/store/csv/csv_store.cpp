#include "store/csv/csv_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace tiermap {

CsvStore::CsvStore(CsvText text, CsvTable table, std::string name, std::uint32_t max_reads_in_flight)
    : text_(std::move(text)),
      table_(std::move(table)),
      name_(std::move(name)),
      max_reads_in_flight_(max_reads_in_flight) {}

std::optional<ElementLayout> CsvStore::element_layout() const {
  ElementLayout layout;
  layout.bytes = table_.number().bytes;
  layout.kind = table_.number().kind;
  layout.type = table_.number().name;
  layout.row_bytes = table_.row_bytes();
  layout.shape = {table_.rows()};
  if (table_.columns() > 1) {
    layout.shape.push_back(table_.columns());
  }
  return layout;
}

std::int64_t CsvStore::read(void* buffer, std::size_t bytes, std::uint64_t offset) {
  const std::uint64_t wanted = std::min<std::uint64_t>(bytes, size_bytes() - std::min(size_bytes(), offset));
  if (wanted == 0) {
    return 0;
  }
  const std::uint64_t row_bytes = table_.row_bytes();
  const std::uint64_t first = offset / row_bytes;
  const std::uint64_t count = (offset + wanted - 1) / row_bytes + 1 - first;
  const bool in_place = offset % row_bytes == 0 && wanted % row_bytes == 0;
  std::vector<std::byte> whole(in_place ? 0 : count * row_bytes);
  std::byte* const rows = in_place ? static_cast<std::byte*>(buffer) : whole.data();
  const int error = table_.read_rows(text_, first, count, rows);
  // Asked afterwards, so that what changed meanwhile is seen too.
  if (text_.changed()) {
    return -ESTALE;
  }
  if (error != 0) {
    return error;
  }
  if (!in_place) {
    std::memcpy(buffer, rows + offset % row_bytes, wanted);
  }
  return static_cast<std::int64_t>(wanted);
}

}  // namespace tiermap
