// Any file of options is a list of good settings, any file of tiers good options, or an OptionError of one line.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "config/options_file.hpp"
#include "tier/tiering_options.hpp"
#include "tiermap/error.hpp"

namespace {

template <typename Parse>
void refuse_in_one_line(Parse&& parse) {
  try {
    parse();
  } catch (const tiermap::OptionError& error) {
    if (std::strchr(error.what(), '\n') != nullptr) {
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string yaml(reinterpret_cast<const char*>(data), size);
  refuse_in_one_line([&] {
    for (const tiermap::FileSetting& setting : tiermap::parse_options_file(yaml, "/options.yaml")) {
      const tiermap::OptionRow& row = tiermap::option_row(setting.id);
      const bool number = row.type != tiermap::OptionType::text;
      if (number && (setting.value.number < row.minimum || setting.value.number > row.maximum)) {
        std::abort();
      }
    }
  });
  refuse_in_one_line([&] { tiermap::parse_tiering_options(yaml, "/tiers.yaml"); });
  return 0;
}
