#include "doctor/tier_measurement.hpp"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <system_error>

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/memory_limits.hpp"
#include "store/file_open.hpp"
#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "store/store_url.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t sample_bytes = 64 << 20;
constexpr std::uint64_t sample_piece_bytes = 1 << 20;
constexpr std::uint64_t sample_page_bytes = 4096;
constexpr int sample_reads = 200;
/// Capacities are printed in whole ones.
constexpr std::uint64_t capacity_unit_bytes = 1 << 20;

using MeasuringBuffer = std::unique_ptr<char, void (*)(void*)>;

/// Calls `move(done)` until all is moved: what a full place takes less than all of tells why only the next time.
template <typename Move>
void move_all(std::uint64_t bytes, const std::string& where, Move&& move) {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::int64_t moved = move(done);
    if (moved == -EINTR) {
      continue;
    }
    if (moved <= 0) {
      const int error = moved < 0 ? static_cast<int>(-moved) : EIO;
      throw StoreError(error, quote_value(where) + " cannot be measured: " + error_text(error) +
                                  ": free 64MiB there, or name another place");
    }
    done += static_cast<std::uint64_t>(moved);
  }
}

void write_all(Store& store, const char* buffer, std::uint64_t bytes, std::uint64_t at, const std::string& where) {
  move_all(bytes, where, [&](std::uint64_t done) { return store.write(buffer + done, bytes - done, at + done); });
}

void read_all(Store& store, char* buffer, std::uint64_t bytes, std::uint64_t at, const std::string& where) {
  move_all(bytes, where, [&](std::uint64_t done) { return store.read(buffer + done, bytes - done, at + done); });
}

double seconds_since(std::uint64_t begun) {
  return static_cast<double>(now_nanoseconds() - begun) / 1e9;
}

/// Writes all of it, then reads it in large pieces, then single pages here and there.
void measure(Store& store, const std::string& where, TierOptions& tier) {
  const MeasuringBuffer buffer(static_cast<char*>(std::aligned_alloc(sample_page_bytes, sample_piece_bytes)),
                               std::free);
  std::memset(buffer.get(), 0x5a, sample_piece_bytes);
  for (std::uint64_t at = 0; at < sample_bytes; at += sample_piece_bytes) {
    write_all(store, buffer.get(), sample_piece_bytes, at, where);
  }
  const std::uint64_t begun = now_nanoseconds();
  for (std::uint64_t at = 0; at < sample_bytes; at += sample_piece_bytes) {
    read_all(store, buffer.get(), sample_piece_bytes, at, where);
  }
  tier.bytes_per_second = static_cast<double>(sample_bytes) / seconds_since(begun);
  std::mt19937_64 random(1);
  std::vector<double> microseconds;
  for (int read = 0; read < sample_reads; ++read) {
    const std::uint64_t offset = random() % (sample_bytes / sample_page_bytes) * sample_page_bytes;
    const std::uint64_t from = now_nanoseconds();
    read_all(store, buffer.get(), sample_page_bytes, offset, where);
    microseconds.push_back(seconds_since(from) * 1e6);
  }
  std::ranges::nth_element(microseconds, microseconds.begin() + sample_reads / 2);
  tier.latency_microseconds = microseconds[sample_reads / 2];
}

void measure_memory(TierOptions& tier) {
  // A budget that nobody says is half of what is left, and the program takes some for itself.
  tier.capacity_bytes = read_machine_memory().usable_bytes() / 4;
  MemoryStore store(sample_bytes);
  measure(store, "memory", tier);
}

std::unique_ptr<FileStore> make_file(const std::string& directory) {
  try {
    return FileStore::open_nameless(directory, "a file to measure");
  } catch (const StoreError& error) {
    const int number = error.code().value();
    throw StoreError(number, quote_value(directory) + " takes no file to measure: " + error_text(number) +
                                 ": see that files can be made there, or name another place");
  }
}

void measure_directory(TierOptions& tier) {
  measure(*make_file(tier.name), tier.name, tier);
  struct statvfs space = {};  // Without that file.
  if (::statvfs(tier.path.c_str(), &space) == 0) {
    tier.capacity_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize / 2;
  }
}

/// As much as a server has room for, by powers of two. Nobody tells it otherwise.
std::unique_ptr<Store> open_largest(const std::string& url) {
  constexpr std::uint64_t most_bytes = 1ULL << 46;
  const std::string temporary = url + (url.find('?') == std::string::npos ? "?" : "&") + "temporary=true";
  for (std::uint64_t bytes = most_bytes;; bytes /= 2) {
    try {
      return open_store(temporary, OpenMode::create, bytes);
    } catch (const StoreError& error) {
      const int number = error.code().value();
      if ((number != ENOSPC && number != ENOMEM && number != EFBIG) || bytes == sample_bytes) {
        throw;
      }
    }
  }
}

void measure_server(TierOptions& tier) {
  const std::unique_ptr<Store> store = open_largest(tier.url);
  tier.capacity_bytes = store->size_bytes() / 2;
  measure(*store, tier.url, tier);
}

void measure_one(TierOptions& tier, std::uint64_t bytes_a_block) {
  switch (tier.kind) {
    case TierKind::directory:
      measure_directory(tier);
      break;
    case TierKind::remote:
      measure_server(tier);
      break;
    default:
      measure_memory(tier);
  }
  const std::uint64_t least = std::max(bytes_a_block, capacity_unit_bytes);
  if (tier.capacity_bytes < least) {
    throw StoreError(ENOSPC, quote_value(tier.name) + " has no room for a tier: half of what is free there is " +
                                 format_size(tier.capacity_bytes) + ": free at least " + format_size(2 * least) +
                                 ", or name another place");
  }
}

TierOptions tier_at(const std::string& place) {
  TierOptions tier;
  tier.name = place;
  if (place.starts_with("remote://")) {
    tier.kind = TierKind::remote;
    tier.url = place;
    tier.name = parse_store_url(place).host;
    return tier;
  }
  tier.kind = TierKind::directory;
  std::error_code problem;
  const std::filesystem::path path = std::filesystem::canonical(place, problem);
  if (problem == std::errc::permission_denied) {
    throw OptionError(quote_value(place) + " cannot be looked at: " + error_text(problem.value()) +
                          ": see that its folders can be entered, or name another place",
                      problem.value());
  }
  if (problem || !std::filesystem::is_directory(path, problem)) {
    throw OptionError(quote_value(place) +
                      " is no directory: name those that tiers are to lie in, or memory servers as remote://HOST:PORT");
  }
  tier.path = path.string();
  return tier;
}

/// As the file of tiers that is printed would be refused.
void refuse_one_place_twice(const TierOptions& tier, const std::vector<TierOptions>& before) {
  std::error_code problem;
  const auto same = std::ranges::find_if(before, [&](const TierOptions& other) {
    return tier.kind == other.kind && tier.url == other.url &&
           (tier.path.empty() || std::filesystem::equivalent(tier.path, other.path, problem));
  });
  if (same != before.end()) {
    const std::string& place = tier.url.empty() ? tier.name : tier.url;
    throw OptionError(
        quote_value(place) +
        (same->name == tier.name ? " is named twice" : " is the same place as " + quote_value(same->name)) +
        ": name it once");
  }
}

const char* name_of(TierKind kind) noexcept {
  switch (kind) {
    case TierKind::memory:
      return "memory";
    case TierKind::directory:
      return "directory";
    case TierKind::remote:
      return "remote";
    case TierKind::emulated:
      break;
  }
  return "emulated";
}

}  // namespace

std::vector<TierOptions> tiers_at(const std::vector<std::string>& places) {
  TierOptions memory;
  memory.name = "dram";
  std::vector<TierOptions> tiers = {memory};
  for (const std::string& place : places) {
    const TierOptions tier = tier_at(place);
    refuse_one_place_twice(tier, tiers);
    tiers.push_back(tier);
  }
  // One server may be several places, and a directory may be called as one is, or as memory.
  const std::vector<TierOptions> named = tiers;
  for (TierOptions& tier : tiers) {
    if (tier.kind == TierKind::remote && std::ranges::count(named, tier.name, &TierOptions::name) > 1) {
      tier.name = tier.url;
    }
  }
  while (std::ranges::count(tiers, tiers.front().name, &TierOptions::name) > 1) {
    tiers.front().name += " of the machine";
  }
  return tiers;
}

void measure_tiers(std::vector<TierOptions>& tiers, std::uint64_t bytes_a_block) {
  for (TierOptions& tier : tiers) {
    measure_one(tier, bytes_a_block);
  }
  const auto block_seconds = [&](const TierOptions& tier) {
    return tier.latency_microseconds / 1e6 + static_cast<double>(bytes_a_block) / tier.bytes_per_second;
  };
  std::ranges::sort(tiers, {}, block_seconds);
}

void set_costs(std::vector<TierOptions>& tiers, const std::vector<std::string>& costs) {
  std::vector<std::string> said;
  for (const std::string& cost : costs) {
    const std::size_t sign = std::min(cost.rfind('='), cost.size());
    const std::string place = cost.substr(0, sign);
    const std::string number = sign < cost.size() ? cost.substr(sign + 1) : "";
    double amount = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), amount);
    if (number.empty() || result.ec != std::errc() || result.ptr != number.data() + number.size() || !(amount >= 0) ||
        !std::isfinite(amount)) {
      throw OptionError("--cost " + quote_value(cost) + " says no cost: write PLACE=COST, such as memory=2.5");
    }
    const auto tier = std::ranges::find_if(tiers, [&](const TierOptions& one) {
      return place == "memory" ? one.kind == TierKind::memory
                               : one.kind != TierKind::memory && (one.name == place || one.url == place);
    });
    if (tier == tiers.end()) {
      throw OptionError("--cost " + quote_value(cost) +
                        " is of no place that is measured: write memory, or name a place as it is named before");
    }
    if (std::ranges::find(said, place) != said.end()) {
      throw OptionError("--cost " + quote_value(cost) + " says again what " + quote_value(place) +
                        " costs: say it once");
    }
    said.push_back(place);
    tier->cost_per_gigabyte = amount;
  }
}

/// Of what the tiers have room for.
std::string costs_as_comments(const std::vector<TierOptions>& tiers) {
  std::string text;
  double together = 0;
  for (const TierOptions& tier : tiers) {
    const double cost = static_cast<double>(tier.capacity_bytes) / 1e9 * tier.cost_per_gigabyte;
    together += cost;
    text += tier.cost_per_gigabyte > 0
                ? fmt::format("# {}: {} cost {:.4g}\n", tier.name, format_size_rounded(tier.capacity_bytes), cost)
                : "";
  }
  return text.empty() ? "" : text + fmt::format("# together: {:.4g}\n", together);
}

std::string tiers_as_yaml(const std::vector<TierOptions>& tiers, std::uint64_t bytes_a_block) {
  constexpr std::uint64_t mebi = capacity_unit_bytes;
  YAML::Emitter yaml;
  yaml << YAML::BeginMap << YAML::Key << "block" << YAML::Value << format_size(bytes_a_block);
  yaml << YAML::Key << "tiers" << YAML::Value << YAML::BeginSeq;
  for (const TierOptions& tier : tiers) {
    yaml << YAML::BeginMap << YAML::Key << "name" << YAML::Value << tier.name;
    yaml << YAML::Key << "kind" << YAML::Value << name_of(tier.kind);
    if (!tier.path.empty()) {
      yaml << YAML::Key << "path" << YAML::Value << tier.path;
    }
    if (!tier.url.empty()) {
      yaml << YAML::Key << "url" << YAML::Value << tier.url;
    }
    yaml << YAML::Key << "capacity" << YAML::Value << format_size(tier.capacity_bytes / mebi * mebi);
    yaml << YAML::Key << "bandwidth" << YAML::Value
         << format_size(static_cast<std::uint64_t>(tier.bytes_per_second) / mebi * mebi);
    yaml << YAML::Key << "latency_microseconds" << YAML::Value << fmt::format("{:.1f}", tier.latency_microseconds);
    if (tier.cost_per_gigabyte > 0) {
      yaml << YAML::Key << "cost_per_gigabyte" << YAML::Value << fmt::format("{}", tier.cost_per_gigabyte);
    }
    yaml << YAML::EndMap;
  }
  yaml << YAML::EndSeq << YAML::EndMap;
  return costs_as_comments(tiers) + yaml.c_str() + "\n";
}

}  // namespace tiermap
