// Whatever a trace holds, it is records of regions that were described, or an OptionError of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <string>

#include "observe/trace_file.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

void read(const std::string& bytes) {
  std::istringstream input(bytes);
  std::set<std::uint32_t> described;
  try {
    tiermap::TraceReader reader(input, "trace");
    while (const auto record = reader.next()) {
      require(tiermap::TraceRecord::from(record->word()) == *record);
      if (record->kind == tiermap::TraceKind::region) {
        require(described.insert(record->region).second);
        require(described.contains(reader.first_of_same_bytes(record->region)));
        require(std::strlen(reader.region(record->region).name.data()) < tiermap::TraceRegion::name_bytes);
      } else if (record->kind != tiermap::TraceKind::lost && record->kind != tiermap::TraceKind::end) {
        require(described.contains(record->region) && reader.region(record->region).page_bytes >= 4096);
      }
    }
  } catch (const tiermap::OptionError& error) {
    require(std::strchr(error.what(), '\n') == nullptr && *error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  read(bytes);
  // Once more behind a header that is right, which no chance would find.
  tiermap::TraceHeader header;
  header.header_bytes = sizeof header;
  read(std::string(reinterpret_cast<const char*>(&header), sizeof header) + bytes);
  return 0;
}
