#include "config/yaml_keys.hpp"

#include <charconv>
#include <cmath>

#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

YamlKeys::YamlKeys(const YAML::Node& map, std::string path, std::string of, std::set<std::string> known)
    : path_(std::move(path)), of_(std::move(of)), known_(std::move(known)) {
  if (!map.IsMap()) {
    throw OptionError(yaml_position(path_, map.Mark()) + ": " + of_ + " is no mapping: write 'key: value' lines");
  }
  for (const auto& entry : map) {
    const std::string key = entry.first.IsScalar() ? entry.first.Scalar() : "";
    const std::string where = yaml_position(path_, entry.first.Mark());
    if (!values_.emplace(key, std::make_pair(where, entry.second)).second) {
      throw OptionError(where + ": " + quote_value(key) + " was set before: remove one of the two");
    }
  }
  require_known();
}

const YAML::Node& YamlKeys::node(const std::string& key) {
  return values_.at(key).second;
}

std::string YamlKeys::text(const std::string& key, const std::string& missing) {
  if (!has(key)) {
    return missing;
  }
  if (!values_.at(key).second.IsScalar()) {
    refuse(key, "is no single value: write one");
  }
  return values_.at(key).second.Scalar();
}

std::uint64_t YamlKeys::size(const std::string& key, std::uint64_t missing) {
  const std::string value = text(key, "");
  return has(key) ? parse_size(value, what(key)) : missing;
}

double YamlKeys::number(const std::string& key, double missing) {
  const std::string value = text(key, "");
  if (!has(key)) {
    return missing;
  }
  double number = -1;
  const char* const end = value.data() + value.size();
  // Whatever the locale of the program: in many of them a point is no decimal point.
  const auto result = std::from_chars(value.data(), end, number);
  if (result.ec != std::errc() || result.ptr != end || !std::isfinite(number) || number < 0) {
    refuse(key, quote_value(value) + " is no number from 0 on: write one, such as 1.5");
  }
  return number;
}

bool YamlKeys::flag(const std::string& key, bool missing) {
  const std::string value = text(key, missing ? "true" : "false");
  if (value != "true" && value != "false") {
    refuse(key, quote_value(value) + " is neither: choose true or false");
  }
  return value == "true";
}

std::vector<YAML::Node> YamlKeys::list(const std::string& key, const std::string& example) {
  if (!has(key)) {
    return {};
  }
  const YAML::Node& value = values_.at(key).second;
  if (!value.IsSequence()) {
    refuse(key, "is no list: write " + example);
  }
  return {value.begin(), value.end()};
}

std::vector<std::string> YamlKeys::texts(const std::string& key) {
  std::vector<std::string> all;
  if (!has(key)) {
    return all;
  }
  if (!values_.at(key).second.IsSequence()) {
    return {text(key, "")};
  }
  for (const YAML::Node& node : values_.at(key).second) {
    if (!node.IsScalar()) {
      refuse(key, "is no list of names: write [one, another]");
    }
    all.push_back(node.Scalar());
  }
  return all;
}

void YamlKeys::refuse(const std::string& key, const std::string& reason) const {
  throw OptionError(what(key) + " " + reason);
}

void YamlKeys::require_known() const {
  for (const auto& [key, value] : values_) {
    if (!known_.contains(key)) {
      std::string list;
      for (const std::string& name : known_) {
        list += (list.empty() ? "" : ", ") + name;
      }
      throw OptionError(value.first + ": " + of_ + " has the unknown key " + quote_value(key) + ": choose among " +
                        list);
    }
  }
}

}  // namespace tiermap
