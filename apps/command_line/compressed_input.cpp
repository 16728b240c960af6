#include "command_line/compressed_input.hpp"

#include <fmt/format.h>

#include <array>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

struct Compression {
  std::string_view begins;
  const char* name;
  const char* unpack;
};
constexpr std::array<Compression, 4> compressions = {{{"\x1f\x8b", "gzip", "gunzip"},
                                                      {"BZh", "bzip2", "bunzip2"},
                                                      {"\xfd"
                                                       "7zXZ",
                                                       "xz", "unxz"},
                                                      {"\x28\xb5\x2f\xfd", "zstd", "unzstd"}}};

}  // namespace

void refuse_compressed(const std::string& path, std::string_view first_bytes) {
  for (const Compression& compression : compressions) {
    if (first_bytes.substr(0, compression.begins.size()) == compression.begins) {
      throw OptionError(
          fmt::format("{}:1: the file is compressed by {}, and plain text is read: unpack it with {} first", path,
                      compression.name, compression.unpack));
    }
  }
}

}  // namespace tiermap
