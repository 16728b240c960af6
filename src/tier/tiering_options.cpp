#include "tier/tiering_options.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "config/size.hpp"
#include "config/yaml_file.hpp"
#include "tier/tier_blocks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_block_bytes = 4096;
constexpr std::uint64_t most_block_bytes = 64 << 20;

[[noreturn]] void refuse_tier(const TierOptions& tier, const std::string& reason) {
  throw OptionError("tier " + quote_value(tier.name) + " " + reason);
}

void check_tier(const TierOptions& tier, std::uint64_t block_bytes) {
  if (tier.capacity_bytes < block_bytes) {
    refuse_tier(tier, "has a capacity of " + format_size(tier.capacity_bytes) + ", less than a block of " +
                          format_size(block_bytes) + ": give it more, or choose smaller blocks");
  }
  if ((tier.kind == TierKind::directory) && tier.path.empty()) {
    refuse_tier(tier, "names no directory: give it a path");
  }
  if (tier.kind == TierKind::memory && !tier.path.empty()) {
    refuse_tier(tier, "is of kind memory and has a path: leave it out, or make it a directory");
  }
  if (!(tier.bytes_per_second >= 0) || !(tier.latency_microseconds >= 0)) {
    refuse_tier(tier, "has a bandwidth or latency below 0: give what `tiermap doctor --tiers` measures");
  }
}

/// By what they are, whatever the paths say.
void refuse_shared_directories(const std::vector<TierOptions>& tiers) {
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const TierOptions& tier : tiers) {
    struct stat status = {};
    if (tier.path.empty() || ::stat(tier.path.c_str(), &status) != 0) {
      continue;  // What is missing is told when it is opened.
    }
    if (!seen.emplace(status.st_dev, status.st_ino).second) {
      refuse_tier(tier, "is in " + quote_value(tier.path) + ", where another one is: give each a directory of its own");
    }
  }
}

/// One mapping of the file: each key is asked for once, and finish() refuses those that nobody asked for.
class TierKeys {
 public:
  TierKeys(const YAML::Node& map, std::string path, std::string of) : path_(std::move(path)), of_(std::move(of)) {
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
  }

  bool has(const std::string& key) const { return values_.contains(key); }
  const YAML::Node& node(const std::string& key) {
    known_.insert(key);
    return values_.at(key).second;
  }
  std::string text(const std::string& key, const std::string& missing) {
    known_.insert(key);
    if (!has(key)) {
      return missing;
    }
    if (!values_.at(key).second.IsScalar()) {
      refuse(key, "is no single value: write one");
    }
    return values_.at(key).second.Scalar();
  }
  std::uint64_t size(const std::string& key, std::uint64_t missing) {
    const std::string value = text(key, "");
    return has(key) ? parse_size(value, what(key)) : missing;
  }
  double number(const std::string& key, double missing) {
    const std::string value = text(key, "");
    if (!has(key)) {
      return missing;
    }
    std::size_t end = 0;
    double number = -1;
    try {
      number = std::stod(value, &end);
    } catch (const std::logic_error&) {  // Said below.
    }
    if (end != value.size() || !std::isfinite(number) || number < 0) {
      refuse(key, quote_value(value) + " is no number from 0 on: write one, such as 1.5");
    }
    return number;
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& reason) const {
    throw OptionError(what(key) + " " + reason);
  }
  void finish() const {
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

 private:
  std::string what(const std::string& key) const { return values_.at(key).first + ": " + key + " of " + of_; }

  const std::string path_;
  const std::string of_;
  std::map<std::string, std::pair<std::string, YAML::Node>> values_;
  std::set<std::string> known_;
};

TierKind kind_of(TierKeys& keys) {
  const std::string kind = keys.text("kind", "");
  const std::map<std::string, TierKind> kinds = {
      {"memory", TierKind::memory}, {"directory", TierKind::directory}, {"emulated", TierKind::emulated}};
  const auto found = kinds.find(kind);
  if (found != kinds.end()) {
    return found->second;
  }
  if (!keys.has("kind")) {
    return keys.has("path") ? TierKind::directory : TierKind::memory;
  }
  keys.refuse("kind", quote_value(kind) + " is none: choose memory, directory or emulated");
}

TierOptions read_tier(const YAML::Node& node, const std::string& path, std::size_t number) {
  TierKeys keys(node, path, "tier " + std::to_string(number));
  TierOptions tier;
  tier.name = keys.text("name", "tier " + std::to_string(number));
  tier.kind = kind_of(keys);
  tier.path = keys.text("path", "");
  tier.capacity_bytes = keys.size("capacity", 0);
  tier.bytes_per_second = static_cast<double>(keys.size("bandwidth", 0));
  tier.latency_microseconds = keys.number("latency_microseconds", 0);
  tier.cost_per_gigabyte = keys.number("cost_per_gigabyte", 0);
  keys.finish();
  return tier;
}

void read_backing(TierKeys& all, const std::string& path, TieringOptions& options) {
  if (!all.has("backing")) {
    return;
  }
  TierKeys keys(all.node("backing"), path, "backing");
  options.backing_bytes_per_second = static_cast<double>(keys.size("bandwidth", 0));
  options.backing_latency_microseconds = keys.number("latency_microseconds", 0);
  const std::string emulated = keys.text("emulated", "false");
  if (emulated != "true" && emulated != "false") {
    keys.refuse("emulated", quote_value(emulated) + " is neither: choose true or false");
  }
  options.backing_emulated = emulated == "true";
  keys.finish();
}

}  // namespace

void check_tiering_options(const TieringOptions& options) {
  const std::uint64_t block = options.block_bytes;
  if (block < least_block_bytes || block > most_block_bytes || (block & (block - 1)) != 0) {
    throw OptionError("tiers cannot have blocks of " + format_size(block) +
                      ": choose a power of two from 4KiB to 64MiB");
  }
  if (options.tiers.size() > most_tiers) {
    throw OptionError(std::to_string(options.tiers.size()) + " tiers are too many: name at most " +
                      std::to_string(most_tiers));
  }
  const bool times = options.score_window_seconds >= 0 && options.score_half_life_seconds > 0 &&
                     options.organize_seconds > 0 && options.organize_seconds <= 3600 &&
                     options.write_down_seconds >= 0 && options.retry_seconds >= 0;
  if (!times) {
    throw OptionError("tiers take no times below 0, and none of 0 to organize and for the half life: choose seconds");
  }
  for (const TierOptions& tier : options.tiers) {
    check_tier(tier, block);
  }
  refuse_shared_directories(options.tiers);
}

std::vector<TierOptions> tiers_by_speed(const TieringOptions& options) {
  std::vector<std::size_t> places;
  std::vector<std::pair<double, std::size_t>> known;  // By time; equal ones as they are listed.
  for (std::size_t place = 0; place < options.tiers.size(); ++place) {
    const TierOptions& tier = options.tiers[place];
    if (tier.bytes_per_second > 0 || tier.latency_microseconds > 0) {
      places.push_back(place);
      known.emplace_back(transfer_microseconds(tier, options.block_bytes), place);
    }
  }
  std::ranges::sort(known);
  std::vector<TierOptions> tiers = options.tiers;
  for (std::size_t index = 0; index < places.size(); ++index) {
    tiers[places[index]] = options.tiers[known[index].second];
  }
  return tiers;
}

std::string order_of_tiers(const TieringOptions& options) {
  std::string list;
  bool changed = false;
  for (std::size_t place = 0; const TierOptions& tier : tiers_by_speed(options)) {
    list += (list.empty() ? "" : ", ") + quote_value(tier.name);
    changed = changed || tier.name != options.tiers[place].name || tier.path != options.tiers[place].path;
    ++place;
  }
  return changed ? "tiers are used in the order " + list + ", as their bandwidth and latency say of a block of " +
                       format_size(options.block_bytes) + ", and not as they are listed: list them so"
                 : "";
}

TieringOptions parse_tiering_options(const std::string& yaml, const std::string& path) {
  const std::string remedy = "write 'tiers:' and a list of them (docs/tiers.md)";
  const YAML::Node root = load_yaml(yaml, path, "leave one mapping", remedy);
  if (!root.IsMap()) {
    throw OptionError(yaml_position(path, root.Mark()) + ": no tiers: " + remedy);
  }
  TierKeys keys(root, path, "the file");
  TieringOptions options;
  options.block_bytes = keys.size("block", options.block_bytes);
  options.score_window_seconds = keys.number("score_window_seconds", options.score_window_seconds);
  options.score_half_life_seconds = keys.number("score_half_life_seconds", options.score_half_life_seconds);
  options.organize_seconds = keys.number("organize_seconds", options.organize_seconds);
  options.write_down_seconds = keys.number("write_down_seconds", options.write_down_seconds);
  options.retry_seconds = keys.number("retry_seconds", options.retry_seconds);
  read_backing(keys, path, options);
  if (!keys.has("tiers") || !keys.node("tiers").IsSequence()) {
    throw OptionError(path + ": no list of tiers: " + remedy);
  }
  for (const YAML::Node& node : keys.node("tiers")) {
    options.tiers.push_back(read_tier(node, path, options.tiers.size() + 1));
  }
  keys.finish();
  try {
    check_tiering_options(options);
  } catch (const OptionError& error) {
    throw OptionError(path + ": " + error.what());
  }
  return options;
}

TieringOptions read_tiering_options(const std::string& path) {
  return parse_tiering_options(read_yaml_file(path, "tiers", "name a YAML file as `tiermap doctor --tiers` writes it"),
                               path);
}

}  // namespace tiermap
