// Whatever a .npy header says, reading it ends in a layout that fits in a file, or in a StoreError of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "store/npy_header.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace {

void require_of_npy(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tiermap::NpyHeader header =
        tiermap::parse_npy_header(std::string_view(reinterpret_cast<const char*>(data), size), "array.npy");
    require_of_npy(header.data_offset <= size && header.data_bytes <= tiermap::largest_file_bytes);
    require_of_npy(!header.elements.type.empty());
  } catch (const tiermap::StoreError& error) {
    require_of_npy(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
  return 0;
}
