// Whatever a Parquet file's metadata are, reading them as a tree ends in one that is written to what reads the same, or
// in a StoreError of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "store/parquet/compact_thrift.hpp"
#include "tiermap/error.hpp"

namespace {

void require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    auto [tree, bytes] = tiermap::parse_thrift(text, "file");
    require(bytes <= size);
    const std::string again = tiermap::format_thrift(tree);
    const auto [same, same_bytes] = tiermap::parse_thrift(again, "file");
    require(same_bytes == again.size() && tiermap::format_thrift(same) == again);
    tree.set_integer(3, 5);
    tree.remove(4);
    require(tiermap::parse_thrift(tiermap::format_thrift(tree), "file").first.integer_at(3, 0) == 5);
  } catch (const tiermap::StoreError& error) {
    require(std::strpbrk(error.what(), "\n\r") == nullptr && *error.what() != '\0');
  }
  return 0;
}
