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

/// Each key is asked for once, and finish() refuses those that nobody asked for. All throw OptionError, one line with
/// path, line and remedy.
class YamlKeys {
 public:
  /// `of` is what messages call the mapping.
  YamlKeys(const YAML::Node& map, std::string path, std::string of);

  bool has(const std::string& key) const { return values_.contains(key); }
  /// Which must be there.
  const YAML::Node& node(const std::string& key);
  /// A single value, or `missing`.
  std::string text(const std::string& key, const std::string& missing);
  std::uint64_t size(const std::string& key, std::uint64_t missing);
  /// From 0 on.
  double number(const std::string& key, double missing);
  bool flag(const std::string& key, bool missing);
  /// A list of single values; one alone counts as a list.
  std::vector<std::string> texts(const std::string& key);
  [[noreturn]] void refuse(const std::string& key, const std::string& reason) const;
  void finish() const;

 private:
  std::string what(const std::string& key) const { return values_.at(key).first + ": " + key + " of " + of_; }

  const std::string path_;
  const std::string of_;
  std::map<std::string, std::pair<std::string, YAML::Node>> values_;
  std::set<std::string> known_;
};

}  // namespace tiermap
