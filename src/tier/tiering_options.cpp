#include "tier/tiering_options.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "config/size.hpp"
#include "config/yaml_file.hpp"
#include "config/yaml_keys.hpp"
#include "platform/memory_limits.hpp"
#include "store/store_url.hpp"
#include "tier/tier_blocks.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t least_block_bytes = 4096;
constexpr std::uint64_t most_block_bytes = 64 << 20;

constexpr double most_latency_microseconds = 3.6e9;

bool is_amount(double number) noexcept {
  return number >= 0 && std::isfinite(number);
}

/// 0: not known. What is emulated waits for so long, which has to be a number of nanoseconds.
bool is_speed(double bytes_per_second, double latency_microseconds) noexcept {
  return is_amount(bytes_per_second) && (bytes_per_second == 0 || bytes_per_second >= 1) &&
         is_amount(latency_microseconds) && latency_microseconds <= most_latency_microseconds;
}

[[noreturn]] void refuse_tier(const TierOptions& tier, const std::string& reason) {
  throw OptionError("tier " + quote_value(tier.name) + " " + reason);
}

void check_server(const TierOptions& tier) {
  const std::string remedy = "give it a url such as remote://node7:7070";
  if (tier.kind != TierKind::remote) {
    if (!tier.url.empty()) {
      refuse_tier(tier, "has a url and is not of kind remote: leave one out");
    }
    return;
  }
  if (!tier.path.empty()) {
    refuse_tier(tier, "is of kind remote and has a path: leave it out, or make it a directory");
  }
  if (tier.url.empty()) {
    refuse_tier(tier, "names no server: " + remedy);
  }
  try {
    if (parse_store_url(tier.url).scheme == "remote") {
      return;
    }
  } catch (const StoreError& error) {
    refuse_tier(tier, std::string("names no server: ") + error.what());
  }
  refuse_tier(tier, "names no server by " + quote_value(tier.url) + ": " + remedy);
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
  check_server(tier);
  if (!is_speed(tier.bytes_per_second, tier.latency_microseconds)) {
    refuse_tier(tier,
                "has a bandwidth below a byte a second, or a latency that is not from 0 to an hour: give what `tiermap "
                "doctor --tiers` measures");
  }
  if (!is_amount(tier.cost_per_gigabyte)) {
    refuse_tier(tier, "has a cost that is no number from 0 on: give what a gigabyte costs, or leave it out");
  }
}

/// Those that were not given one may be alike.
void refuse_shared_names(const std::vector<TierOptions>& tiers) {
  std::set<std::string> seen;
  for (const TierOptions& tier : tiers) {
    if (!tier.name.empty() && !seen.insert(tier.name).second) {
      throw OptionError("two tiers have the name " + quote_value(tier.name) +
                        ", which reports and messages call them by: give each one of its own");
    }
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

void refuse_shared_servers(const std::vector<TierOptions>& tiers) {
  std::set<std::string> seen;
  for (const TierOptions& tier : tiers) {
    if (!tier.url.empty() && !seen.insert(tier.url).second) {
      refuse_tier(tier, "is at " + quote_value(tier.url) + ", where another one is: give one the capacity of both");
    }
  }
}

/// Tiers take DRAM as they fill up, and a program that has more of it than there is is killed in the midst of its
/// work.
void refuse_more_than_memory(const std::vector<TierOptions>& tiers) {
  const MachineMemory machine = read_machine_memory();
  std::uint64_t left = machine.most_bytes();
  if (left == 0) {
    return;  // Nothing is known.
  }
  const std::string there =
      format_size(left) + " that the " + (left < machine.total ? "control group" : "machine") + " has";
  for (const TierOptions& tier : tiers) {
    const bool in_memory = is_in_memory(tier);
    if (in_memory && tier.capacity_bytes > left) {
      refuse_tier(tier, "with its capacity of " + format_size(tier.capacity_bytes) +
                            " takes more memory, with the tiers before it, than the " + there +
                            ": give it less, or a directory");
    }
    left -= in_memory ? tier.capacity_bytes : 0;
  }
}

/// What is emulated and slows nothing would be taken for what it stands for.
void refuse_emulated_without_speed(const TieringOptions& options) {
  const std::string reason =
      " emulated, and neither a bandwidth nor a latency says how slow: give it one, or leave out that it is";
  for (const TierOptions& tier : options.tiers) {
    if (tier.kind == TierKind::emulated && tier.bytes_per_second == 0 && tier.latency_microseconds == 0) {
      refuse_tier(tier, "is" + reason);
    }
  }
  if (options.backing_emulated && options.backing_bytes_per_second == 0 && options.backing_latency_microseconds == 0) {
    throw OptionError("the store behind tiers is" + reason);
  }
}

TierKind kind_of(YamlKeys& keys) {
  const std::string kind = keys.text("kind", "");
  const std::map<std::string, TierKind> kinds = {{"memory", TierKind::memory},
                                                 {"directory", TierKind::directory},
                                                 {"emulated", TierKind::emulated},
                                                 {"remote", TierKind::remote}};
  const auto found = kinds.find(kind);
  if (found != kinds.end()) {
    return found->second;
  }
  if (!keys.has("kind")) {
    return keys.has("path") ? TierKind::directory : keys.has("url") ? TierKind::remote : TierKind::memory;
  }
  keys.refuse("kind", quote_value(kind) + " is none: choose memory, directory, emulated or remote");
}

TierOptions read_tier(const YAML::Node& node, const std::string& path, std::size_t number) {
  YamlKeys keys(node, path, "tier " + std::to_string(number),
                {"name", "kind", "path", "url", "capacity", "bandwidth", "latency_microseconds", "cost_per_gigabyte"});
  TierOptions tier;
  tier.name = keys.text("name", "tier " + std::to_string(number));
  tier.kind = kind_of(keys);
  tier.path = keys.text("path", "");
  tier.url = keys.text("url", "");
  tier.capacity_bytes = keys.size("capacity", 0);
  tier.bytes_per_second = static_cast<double>(keys.size("bandwidth", 0));
  tier.latency_microseconds = keys.number("latency_microseconds", 0);
  tier.cost_per_gigabyte = keys.number("cost_per_gigabyte", 0);
  return tier;
}

void read_backing(YamlKeys& all, const std::string& path, TieringOptions& options) {
  if (!all.has("backing")) {
    return;
  }
  YamlKeys keys(all.node("backing"), path, "backing",
                {"bandwidth", "latency_microseconds", "cost_per_gigabyte", "emulated"});
  options.backing_bytes_per_second = static_cast<double>(keys.size("bandwidth", 0));
  options.backing_latency_microseconds = keys.number("latency_microseconds", 0);
  options.backing_cost_per_gigabyte = keys.number("cost_per_gigabyte", 0);
  options.backing_emulated = keys.flag("emulated", false);
}

}  // namespace

bool is_in_memory(const TierOptions& tier) noexcept {
  return tier.kind == TierKind::memory || (tier.kind == TierKind::emulated && tier.path.empty());
}

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
    throw OptionError(
        "tiers take no times below 0, none of 0 for the half life, and to organize more than 0 seconds and at most an "
        "hour: choose seconds");
  }
  if (!is_speed(options.backing_bytes_per_second, options.backing_latency_microseconds) ||
      !is_amount(options.backing_cost_per_gigabyte)) {
    throw OptionError(
        "the store behind tiers has a bandwidth below a byte a second, a latency that is not from 0 to an hour, or a "
        "cost below 0: give what was measured, or leave them out");
  }
  for (const TierOptions& tier : options.tiers) {
    check_tier(tier, block);
  }
  refuse_shared_names(options.tiers);
  refuse_shared_directories(options.tiers);
  refuse_shared_servers(options.tiers);
  refuse_more_than_memory(options.tiers);
  refuse_emulated_without_speed(options);
}

std::vector<TierOptions> tiers_by_speed(const TieringOptions& options) {
  std::vector<std::size_t> places;
  // By time; equal ones by cost, then as they are listed.
  std::vector<std::tuple<double, double, std::size_t>> known;
  for (std::size_t place = 0; place < options.tiers.size(); ++place) {
    const TierOptions& tier = options.tiers[place];
    if (tier.bytes_per_second > 0 || tier.latency_microseconds > 0) {
      places.push_back(place);
      const double cost = tier.cost_per_gigabyte > 0 ? tier.cost_per_gigabyte : std::numeric_limits<double>::infinity();
      known.emplace_back(transfer_microseconds(tier, options.block_bytes), cost, place);
    }
  }
  std::ranges::sort(known);
  std::vector<TierOptions> tiers = options.tiers;
  for (std::size_t index = 0; index < places.size(); ++index) {
    tiers[places[index]] = options.tiers[std::get<2>(known[index])];
  }
  return tiers;
}

std::string order_of_tiers(const TieringOptions& options) {
  std::string list;
  bool changed = false;
  for (std::size_t place = 0; const TierOptions& tier : tiers_by_speed(options)) {
    list += (list.empty() ? "" : ", ") + quote_value(tier.name);
    changed = changed || tier.name != options.tiers[place].name || tier.path != options.tiers[place].path ||
              tier.url != options.tiers[place].url;
    ++place;
  }
  return changed ? "tiers are used in the order " + list +
                       ", as their bandwidth and latency (where these are equal, their cost) say of a block of " +
                       format_size(options.block_bytes) + ", and not as they are listed: list them so"
                 : "";
}

TieringOptions parse_tiering_options(const std::string& yaml, const std::string& path) {
  const std::string remedy = "write 'tiers:' and a list of them (docs/tiers.md)";
  const YAML::Node root = load_yaml(yaml, path, "leave one mapping", remedy);
  if (!root.IsMap()) {
    throw OptionError(yaml_position(path, root.Mark()) + ": no tiers: " + remedy);
  }
  YamlKeys keys(root, path, "the file",
                {"block", "tiers", "backing", "score_window_seconds", "score_half_life_seconds", "organize_seconds",
                 "write_down_seconds", "retry_seconds"});
  TieringOptions options;
  options.block_bytes = keys.size("block", options.block_bytes);
  options.score_window_seconds = keys.number("score_window_seconds", options.score_window_seconds);
  options.score_half_life_seconds = keys.number("score_half_life_seconds", options.score_half_life_seconds);
  options.organize_seconds = keys.number("organize_seconds", options.organize_seconds);
  options.write_down_seconds = keys.number("write_down_seconds", options.write_down_seconds);
  options.retry_seconds = keys.number("retry_seconds", options.retry_seconds);
  read_backing(keys, path, options);
  std::set<std::string> names;
  for (const YAML::Node& node : keys.list("tiers", "tiers: [{name: dram, capacity: 1GiB}]")) {
    options.tiers.push_back(read_tier(node, path, options.tiers.size() + 1));
    if (const std::string& name = options.tiers.back().name; !names.insert(name).second) {
      throw OptionError(yaml_position(path, node.Mark()) + ": a tier before has the name " + quote_value(name) +
                        ", which reports and messages call them by: give each one of its own");
    }
  }
  if (options.tiers.empty()) {
    throw OptionError(path + ": no list of tiers: " + remedy);
  }
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
