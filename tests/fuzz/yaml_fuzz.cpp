// Any file of options is a list of good settings or an OptionError of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "config/options_file.hpp"
#include "tiermap/error.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string yaml(reinterpret_cast<const char*>(data), size);
  try {
    for (const tiermap::FileSetting& setting : tiermap::parse_options_file(yaml, "/options.yaml")) {
      const tiermap::OptionRow& row = tiermap::option_row(setting.id);
      const bool number = row.type != tiermap::OptionType::text;
      if (number && (setting.value.number < row.minimum || setting.value.number > row.maximum)) {
        std::abort();
      }
    }
  } catch (const tiermap::OptionError& error) {
    if (std::strchr(error.what(), '\n') != nullptr) {
      std::abort();
    }
  }
  return 0;
}
