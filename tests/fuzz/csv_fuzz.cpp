// Whatever a text file holds, reading it as columns of numbers ends in a table whose rows are read alike in one piece
// and one by one, or in a StoreError of one line. The first byte says how it is to be read.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "store/csv/table.hpp"
#include "tiermap/error.hpp"

namespace {

void require_of_csv(bool condition) {
  if (!condition) {
    std::abort();
  }
}

tiermap::CsvForm form_of(std::uint8_t choice) {
  constexpr const char* types[] = {"float64", "float32", "int16", "uint8"};
  constexpr const char delimiters[] = {',', ';', '\t', ' '};
  tiermap::CsvForm form;
  form.number = tiermap::find_csv_number(types[choice & 3U]);
  form.delimiter = delimiters[(choice >> 2U) & 3U];
  form.missing = (choice & 16U) != 0 ? "7" : "";
  form.columns = (choice & 32U) != 0 ? "0" : "";
  form.header = (choice & 64U) != 0 ? tiermap::CsvForm::Header::none : tiermap::CsvForm::Header::found_out;
  return form;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tiermap::FileDescriptor memory(::memfd_create("csv", MFD_CLOEXEC));
  const std::size_t bytes = size == 0 ? 0 : size - 1;
  require_of_csv(bytes == 0 || ::write(memory.get(), data + 1, bytes) == static_cast<ssize_t>(bytes));
  tiermap::OpenedFile opened;
  opened.file = tiermap::DirectFile(std::move(memory), tiermap::FileDescriptor());
  const tiermap::CsvText text(std::move(opened));
  try {
    const tiermap::CsvTable table("table.csv", text, form_of(size == 0 ? 0 : data[0]));
    std::vector<std::byte> all(table.rows() * table.row_bytes());
    std::vector<std::byte> row(table.row_bytes());
    require_of_csv(table.rows() == 0 || table.read_rows(text, 0, table.rows(), all.data()) == 0);
    for (std::uint64_t index = 0; index < table.rows(); ++index) {
      require_of_csv(table.read_rows(text, index, 1, row.data()) == 0);
      require_of_csv(std::memcmp(row.data(), all.data() + index * row.size(), row.size()) == 0);
    }
  } catch (const tiermap::StoreError& error) {
    require_of_csv(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
  return 0;
}
