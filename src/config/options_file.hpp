// The YAML file of options: one flat mapping from option names to values.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/option_table.hpp"

namespace tiermap {

/// One line of the file that sets an option.
struct FileSetting {
  OptionId id;
  OptionValue value;
  std::string where;  ///< "/path:line".
};

/// What `yaml` sets. `path` is for messages. Throws OptionError, one line with path and line number, for anything that
/// is not a mapping of known names, each once, to good values.
std::vector<FileSetting> parse_options_file(const std::string& yaml, const std::string& path);

/// The same of the file at `path`. Throws OptionError if it cannot be read or is no regular file.
std::vector<FileSetting> read_options_file(const std::string& path);

}  // namespace tiermap
