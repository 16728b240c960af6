// One mapping of a YAML file, whose keys are asked for one by one.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/yaml_file.hpp"

namespace tiermap {

/// All throw OptionError, one line with path, line and remedy.
class YamlKeys {
 public:
  /// `of` is what messages call the mapping, and `known` the keys that it may have. Any other is refused before
  /// anything else is said of the mapping.
  YamlKeys(const YAML::Node& map, std::string path, std::string of, std::set<std::string> known);

  bool has(const std::string& key) const { return values_.contains(key); }
  /// Which must be there.
  const YAML::Node& node(const std::string& key);
  /// A single value, or `missing`.
  std::string text(const std::string& key, const std::string& missing);
  std::uint64_t size(const std::string& key, std::uint64_t missing);
  /// From 0 on.
  double number(const std::string& key, double missing);
  bool flag(const std::string& key, bool missing);
  /// What a list has; nothing where the key is missing. `example` says how one is written.
  std::vector<YAML::Node> list(const std::string& key, const std::string& example);
  /// A list of single values; one alone counts as a list.
  std::vector<std::string> texts(const std::string& key);
  [[noreturn]] void refuse(const std::string& key, const std::string& reason) const;

 private:
  void require_known() const;
  std::string what(const std::string& key) const { return values_.at(key).first + ": " + key + " of " + of_; }

  const std::string path_;
  const std::string of_;
  const std::set<std::string> known_;
  std::map<std::string, std::pair<std::string, YAML::Node>> values_;
};

}  // namespace tiermap
