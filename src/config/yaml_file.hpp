// Small YAML files that people write: read whole, one document, with errors that name the line.
#pragma once

#include <yaml-cpp/yaml.h>

#include <string>

namespace tiermap {

/// The text of the file at `path`. Throws OptionError ("WHAT 'path' cannot be used (reason): remedy") if it cannot be
/// read, is no regular file, or is far larger than what anybody writes.
std::string read_yaml_file(const std::string& path, const std::string& what, const std::string& remedy);

/// The one document in `yaml`; null if there is nothing in it. `path` is for messages. Throws OptionError, one line
/// with path and line number, for what is no YAML (`syntax` says how to write it) or for a second document (`remedy`).
YAML::Node load_yaml(const std::string& yaml, const std::string& path, const std::string& remedy,
                     const std::string& syntax);

/// "/path:line".
std::string yaml_position(const std::string& path, const YAML::Mark& mark);

}  // namespace tiermap
