// Any text is a size or an OptionError of one line; what is a size is written and read again without change.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "config/size.hpp"
#include "tiermap/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const std::uint64_t bytes = tiermap::parse_size(text, "size");
    if (tiermap::parse_size(tiermap::format_size(bytes), "size") != bytes) {
      std::abort();
    }
  } catch (const tiermap::OptionError& error) {
    if (std::strchr(error.what(), '\n') != nullptr) {
      std::abort();
    }
  }
  constexpr std::uint64_t available = std::uint64_t{1} << 40;
  try {
    const std::uint64_t bytes = tiermap::parse_budget(text, "budget", available);
    if (text.ends_with('%') && bytes > available) {
      std::abort();
    }
  } catch (const tiermap::OptionError&) {
    return 0;
  }
  return 0;
}
