// What tiers may be: checks, and the YAML file.
#pragma once

#include <string>

#include "tiermap/tiers.hpp"

namespace tiermap {

/// Throws OptionError, one line with the tier's name and the remedy.
void check_tiering_options(const TieringOptions& options);

/// What `yaml` says; `path` is for messages. Throws as read_tiering_options().
TieringOptions parse_tiering_options(const std::string& yaml, const std::string& path);

}  // namespace tiermap
