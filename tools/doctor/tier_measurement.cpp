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

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "platform/memory_limits.hpp"
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

using MeasuringBuffer = std::unique_ptr<char, void (*)(void*)>;

void require(std::int64_t moved, std::uint64_t bytes, const std::string& where) {
  if (moved != static_cast<std::int64_t>(bytes)) {
    const int error = moved < 0 ? static_cast<int>(-moved) : EIO;
    throw StoreError(
        error, where + " cannot be measured: " + std::strerror(error) + ": free 64MiB there, or name another place");
  }
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
    require(store.write(buffer.get(), sample_piece_bytes, at), sample_piece_bytes, where);
  }
  const std::uint64_t begun = now_nanoseconds();
  for (std::uint64_t at = 0; at < sample_bytes; at += sample_piece_bytes) {
    require(store.read(buffer.get(), sample_piece_bytes, at), sample_piece_bytes, where);
  }
  tier.bytes_per_second = static_cast<double>(sample_bytes) / seconds_since(begun);
  std::mt19937_64 random(1);
  std::vector<double> microseconds;
  for (int read = 0; read < sample_reads; ++read) {
    const std::uint64_t offset = random() % (sample_bytes / sample_page_bytes) * sample_page_bytes;
    const std::uint64_t from = now_nanoseconds();
    require(store.read(buffer.get(), sample_page_bytes, offset), sample_page_bytes, where);
    microseconds.push_back(seconds_since(from) * 1e6);
  }
  std::ranges::nth_element(microseconds, microseconds.begin() + sample_reads / 2);
  tier.latency_microseconds = microseconds[sample_reads / 2];
}

TierOptions measure_memory() {
  TierOptions tier;
  tier.name = "dram";
  tier.capacity_bytes = read_machine_memory().usable_bytes() / 2;
  MemoryStore store(sample_bytes);
  measure(store, "memory", tier);
  return tier;
}

TierOptions measure_directory(const std::string& path) {
  if (!std::filesystem::is_directory(path)) {
    throw OptionError(quote_value(path) +
                      " is no directory: name those that tiers are to lie in, or memory servers as remote://HOST:PORT");
  }
  TierOptions tier;
  tier.name = path;
  tier.kind = TierKind::directory;
  tier.path = std::filesystem::canonical(path).string();
  const std::unique_ptr<FileStore> store = FileStore::open_nameless(path, "a file to measure");
  measure(*store, path, tier);
  struct statvfs space = {};
  if (::statvfs(path.c_str(), &space) == 0) {
    tier.capacity_bytes = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize / 2;
  }
  return tier;
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

TierOptions measure_server(const std::string& url) {
  const std::unique_ptr<Store> store = open_largest(url);
  TierOptions tier;
  tier.name = parse_store_url(url).host;
  tier.kind = TierKind::remote;
  tier.url = url;
  tier.capacity_bytes = store->size_bytes() / 2;
  measure(*store, url, tier);
  return tier;
}

TierOptions measure_place(const std::string& place) {
  return place.starts_with("remote://") ? measure_server(place) : measure_directory(place);
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

std::vector<TierOptions> measure_tiers(const std::vector<std::string>& places, std::uint64_t bytes_a_block) {
  std::vector<TierOptions> tiers = {measure_memory()};
  for (const std::string& place : places) {
    tiers.push_back(measure_place(place));
  }
  const auto block_seconds = [&](const TierOptions& tier) {
    return tier.latency_microseconds / 1e6 + static_cast<double>(bytes_a_block) / tier.bytes_per_second;
  };
  std::ranges::sort(tiers, {}, block_seconds);
  return tiers;
}

void set_costs(std::vector<TierOptions>& tiers, const std::vector<std::string>& costs) {
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
  constexpr std::uint64_t mebi = 1 << 20;
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
