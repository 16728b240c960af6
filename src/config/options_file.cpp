#include "config/options_file.hpp"

#include <algorithm>

#include "config/size.hpp"
#include "config/yaml_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

FileSetting read_setting(const YAML::Node& key, const YAML::Node& value, const std::string& path) {
  const std::string where = yaml_position(path, key.Mark());
  if (!key.IsScalar()) {
    throw OptionError(where + ": an option's name must be a word: write one 'option: value' a line");
  }
  const auto row = std::ranges::find(option_table(), std::string_view(key.Scalar()), &OptionRow::name);
  if (row == option_table().end()) {
    throw OptionError(where + ": unknown option " + quote_value(key.Scalar()) +
                      ": correct or remove it ('tiermap config' lists the options)");
  }
  const std::string what = where + ": " + std::string(row->name);
  if (value.IsSequence() || value.IsMap()) {
    throw OptionError(what + " is a " + (value.IsMap() ? "mapping" : "list") + ": choose " + describe_range(*row));
  }
  return {row->id, parse_option(*row, value.IsScalar() ? value.Scalar() : std::string(), what), where};
}

}  // namespace

std::vector<FileSetting> parse_options_file(const std::string& yaml, const std::string& path) {
  const YAML::Node root = load_yaml(yaml, path, "leave one mapping of options", "write one 'option: value' a line");
  std::vector<FileSetting> settings;
  if (root.IsNull()) {
    return settings;
  }
  if (!root.IsMap()) {
    throw OptionError(yaml_position(path, root.Mark()) +
                      ": not a mapping of options: write one 'option: value' a line");
  }
  for (const auto& entry : root) {
    FileSetting setting = read_setting(entry.first, entry.second, path);
    const auto earlier = std::ranges::find(settings, setting.id, &FileSetting::id);
    if (earlier != settings.end()) {
      throw OptionError(setting.where + ": " + std::string(option_row(setting.id).name) + " was set before at " +
                        earlier->where + ": remove one of the two");
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

std::vector<FileSetting> read_options_file(const std::string& path) {
  return parse_options_file(read_yaml_file(path, "TIERMAP_CONFIG", "name a readable YAML file, or unset it"), path);
}

}  // namespace tiermap
