#include "top/report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/size.hpp"

namespace tiermap {
namespace {

constexpr std::size_t name_width = 28;
constexpr double mega = 1e6;

std::string optional_text(std::optional<double> value, const char* suffix) {
  return value ? fmt::format("{:.0f}{}", *value, suffix) : std::string("-");
}

/// The end of a path says more than its start.
std::string name_text(const TopLine& line) {
  std::string name = line.is_cache ? fmt::format("{} {}", line.process, line.name) : "  " + line.name;
  if (name.size() > name_width) {
    const std::size_t kept = name_width - 4;
    name = line.is_cache ? name.substr(0, name_width - 2) + ".." : "  .." + name.substr(name.size() - kept);
  }
  return name;
}

std::string name_text(const TopTier& tier) {
  const std::string name = "    " + tier.now.name;
  return name.size() > name_width ? name.substr(0, name_width - 2) + ".." : name;
}

std::string table_line(const TopLine& line) {
  std::optional<double> share = line.share_without_read();
  if (share) {
    *share *= 100;
  }
  std::string text = fmt::format(
      "{:{}} {:>9} {:>9} {:>9} {:>9} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.0f} {:>8.1f} {:>8.1f} {:>7} {:>8} {:>8}",
      name_text(line), name_width, line.is_cache ? format_size_rounded(line.now.budget_bytes) : "",
      format_size_rounded(line.now.resident_bytes), format_size_rounded(line.now.mapped_bytes),
      format_size_rounded(line.now.dirty_bytes), line.faults_per_second(), line.per_second(Counter::fills),
      line.per_second(Counter::rescues), line.per_second(Counter::evictions),
      line.per_second(Counter::read_bytes) / mega, line.per_second(Counter::written_bytes) / mega,
      optional_text(share, "%"), optional_text(line.fault_microseconds(0.5), ""),
      optional_text(line.fault_microseconds(0.99), ""));
  return text + (line.is_cache ? fmt::format("  {}, {}", line.fault_mode, line.policy)
                               : fmt::format("  {} in pages of {}", format_size_rounded(line.length_bytes),
                                             format_size(line.page_size_bytes)));
}

/// In the columns of the cache: what it may have, what it has, and what of that is nowhere else.
std::string tier_line(const TopTier& tier) {
  const std::string blank;
  const std::string text = fmt::format(
      "{:{}} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8.0f} {:>8} {:>8} {:>8.1f} {:>8.1f} {:>7} {:>8} {:>8}", name_text(tier),
      name_width, format_size_rounded(tier.now.capacity_bytes), format_size_rounded(tier.now.used_bytes), blank,
      format_size_rounded(tier.now.dirty_bytes), blank, tier.reads_per_second, blank, blank,
      tier.read_bytes_per_second / mega, tier.written_bytes_per_second / mega, blank, blank, blank);
  const std::string share = tier.share_of_reads ? fmt::format("  {:.0f}% of reads", *tier.share_of_reads * 100) : "";
  return text + share + (tier.now.failed ? "  takes nothing now" : "");
}

nlohmann::ordered_json to_json(const TopTier& tier) {
  nlohmann::ordered_json object = {{"name", tier.now.name},
                                   {"capacity_bytes", tier.now.capacity_bytes},
                                   {"used_bytes", tier.now.used_bytes},
                                   {"dirty_bytes", tier.now.dirty_bytes},
                                   {"reads", tier.now.reads},
                                   {"writes", tier.now.writes},
                                   {"read_bytes", tier.now.read_bytes},
                                   {"written_bytes", tier.now.written_bytes},
                                   {"failed", tier.now.failed},
                                   {"per_second",
                                    {{"reads", tier.reads_per_second},
                                     {"writes", tier.writes_per_second},
                                     {"read_bytes", tier.read_bytes_per_second},
                                     {"written_bytes", tier.written_bytes_per_second}}}};
  object["share_of_reads"] = tier.share_of_reads ? nlohmann::ordered_json(*tier.share_of_reads) : nullptr;
  return object;
}

nlohmann::ordered_json to_json(const TopLine& line) {
  nlohmann::ordered_json counters;
  nlohmann::ordered_json rates;
  for (std::size_t index = 0; index < counter_count; ++index) {
    const auto counter = static_cast<Counter>(index);
    counters[counter_name(counter)] = line.now[counter];
    rates[counter_name(counter)] = line.per_second(counter);
  }
  nlohmann::ordered_json stages;
  for (std::size_t index = 0; index < stage_count; ++index) {
    const LatencyHistogram& histogram = line.now.stages[index];
    stages[stage_name(static_cast<Stage>(index))] = {{"count", histogram.count()},
                                                     {"p50_nanoseconds", histogram.quantile_nanoseconds(0.5)},
                                                     {"p99_nanoseconds", histogram.quantile_nanoseconds(0.99)}};
  }
  nlohmann::ordered_json object = {{"name", line.name}};
  if (line.is_cache) {
    object["process"] = line.process;
    object["fault_mode"] = line.fault_mode;
    object["policy"] = line.policy;
    object["budget_bytes"] = line.now.budget_bytes;
  } else {
    object["length_bytes"] = line.length_bytes;
    object["page_size_bytes"] = line.page_size_bytes;
  }
  object["resident_bytes"] = line.now.resident_bytes;
  object["mapped_bytes"] = line.now.mapped_bytes;
  object["dirty_bytes"] = line.now.dirty_bytes;
  object["counters"] = std::move(counters);
  object["per_second"] = std::move(rates);
  object["stages"] = std::move(stages);
  if (!line.is_cache) {
    object["tiers"] = nlohmann::ordered_json::array();
    for (const TopTier& tier : line.tiers) {
      object["tiers"].push_back(to_json(tier));
    }
  }
  return object;
}

}  // namespace

std::vector<std::string> format_table(const std::vector<TopLine>& lines, std::size_t columns) {
  std::vector<std::string> table;
  table.push_back(fmt::format("{:{}} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>8}",
                              "PROCESS AND CACHE, REGIONS", name_width, "BUDGET", "RESIDENT", "MAPPED", "DIRTY",
                              "FAULTS/s", "FILLS/s", "RESCUE/s", "EVICT/s", "READMB/s", "WRITMB/s", "NOREAD", "P50 us",
                              "P99 us"));
  for (const TopLine& line : lines) {
    table.push_back(table_line(line));
    for (const TopTier& tier : line.tiers) {
      table.push_back(tier_line(tier));
    }
  }
  if (columns != 0) {
    for (std::string& text : table) {
      text.resize(std::min(text.size(), columns));
    }
  }
  return table;
}

std::string format_json(const std::vector<TopLine>& lines) {
  nlohmann::ordered_json caches = nlohmann::ordered_json::array();
  for (const TopLine& line : lines) {
    if (line.is_cache) {
      caches.push_back(to_json(line));
      caches.back()["regions"] = nlohmann::ordered_json::array();
    } else {
      caches.back()["regions"].push_back(to_json(line));
    }
  }
  // Names come from other programs and may be no UTF-8.
  return nlohmann::ordered_json{{"caches", caches}}.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tiermap
