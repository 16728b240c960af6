#include "config/resolve.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <thread>
#include <type_traits>

#include "config/option_table.hpp"
#include "config/options_file.hpp"
#include "config/size.hpp"
#include "platform/control_characters.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

/// A value and where it came from.
struct Decision {
  OptionValue value;
  std::string origin;
};

using Decisions = std::array<Decision, option_count>;

constexpr std::string_view default_origin = "default";
/// The rest of a larger page would be read for nothing, and take memory from what is wanted.
constexpr std::uint64_t page_bytes_for_random_access = 4 << 10;

/// The rows that one call decides: those of a cache, of a region, or all.
struct Scope {
  std::size_t first;
  std::size_t end;
  bool covers(OptionId id) const { return static_cast<std::size_t>(id) >= first && static_cast<std::size_t>(id) < end; }
};
constexpr Scope cache_scope = {0, static_cast<std::size_t>(first_region_option)};
constexpr Scope region_scope = {static_cast<std::size_t>(first_region_option), option_count};
constexpr Scope whole_scope = {0, option_count};

/// What messages call an option that was set in code: "page size".
std::string spoken_name(const OptionRow& row) {
  std::string name(row.name);
  std::ranges::replace(name, '_', ' ');
  return name;
}

/// Collects what was set in code.
class CodeSettings {
 public:
  template <typename T>
  void take(OptionId id, const std::optional<T>& value) {
    if (!value) {
      return;
    }
    const OptionRow& row = option_row(id);
    if constexpr (std::is_same_v<T, std::string>) {
      values_[static_cast<std::size_t>(id)] = parse_option(row, *value, spoken_name(row));
    } else {
      values_[static_cast<std::size_t>(id)] = make_option(row, static_cast<std::uint64_t>(*value), spoken_name(row));
    }
  }
  const std::optional<OptionValue>& operator[](std::size_t option) const { return values_[option]; }

 private:
  std::array<std::optional<OptionValue>, option_count> values_;
};

/// The defaults that depend on the machine, the program or another option; the rest stand in the table.
OptionValue default_value(const OptionRow& row, const Decisions& decisions) {
  switch (row.id) {
    case OptionId::low_watermark: {
      constexpr std::uint64_t usual = 90;
      constexpr std::uint64_t distance = 5;
      const std::uint64_t high = decisions[static_cast<std::size_t>(OptionId::high_watermark)].value.number;
      return make_option(row, std::min(usual, high - std::min(high, distance)), row.name);
    }
    case OptionId::shards: {
      constexpr std::uint64_t processors_a_shard = 16;
      const std::uint64_t processors = std::max(1U, std::thread::hardware_concurrency());
      return make_option(row, std::min((processors + processors_a_shard - 1) / processors_a_shard, row.maximum),
                         row.name);
    }
    case OptionId::name: {
      std::string name = ::program_invocation_short_name;
      name.resize(std::min<std::size_t>(name.size(), row.maximum));
      hide_control_characters(name);
      return {row.minimum, name.empty() ? "program" : name};
    }
    case OptionId::trace:
      return {0, ""};
    default:
      return parse_option(row, row.default_text, row.name);
  }
}

Decisions decide(Scope scope, const CodeSettings& code) {
  Decisions decisions;
  std::vector<FileSetting> file;
  if (const char* path = std::getenv("TIERMAP_CONFIG")) {
    file = read_options_file(path);
  }
  for (std::size_t option = scope.first; option < scope.end; ++option) {
    const OptionRow& row = option_table()[option];
    Decision& decision = decisions[option];
    // A bad value is refused even where a better source overrides it: it was meant to do something.
    const auto setting = std::ranges::find(file, row.id, &FileSetting::id);
    if (setting != file.end()) {
      decision = {setting->value, "file " + setting->where};
    }
    if (const char* text = std::getenv(row.environment.data())) {
      decision = {parse_option(row, text, row.environment), "environment"};
    }
    if (code[option]) {
      decision = {*code[option], "code"};
    }
    if (decision.origin.empty()) {
      decision = {default_value(row, decisions), std::string(default_origin)};
    }
  }
  return decisions;
}

void check_watermarks(const Decisions& decisions) {
  const Decision& high = decisions[static_cast<std::size_t>(OptionId::high_watermark)];
  const Decision& low = decisions[static_cast<std::size_t>(OptionId::low_watermark)];
  if (low.value.number > high.value.number) {
    throw OptionError("low watermark " + low.value.text + " (" + low.origin + ") is above high watermark " +
                      high.value.text + " (" + high.origin + "): choose at most " + high.value.text);
  }
}

bool chosen(const Decisions& decisions, OptionId id) {
  return decisions[static_cast<std::size_t>(id)].origin != default_origin;
}

std::uint64_t number_of(const Decisions& decisions, OptionId id) {
  return decisions[static_cast<std::size_t>(id)].value.number;
}
std::uint32_t small_number_of(const Decisions& decisions, OptionId id) {
  return static_cast<std::uint32_t>(number_of(decisions, id));
}
const std::string& text_of(const Decisions& decisions, OptionId id) {
  return decisions[static_cast<std::size_t>(id)].value.text;
}

CodeSettings settings_of(const CacheOptions& options) {
  CodeSettings code;
  code.take(OptionId::buffer_size, options.budget_bytes);
  code.take(OptionId::fault_mode, options.fault_mode);
  code.take(OptionId::placement, options.placement);
  code.take(OptionId::policy, options.policy);
  code.take(OptionId::hot_share, options.hot_share_percent);
  code.take(OptionId::unmapped_share, options.unmapped_share_percent);
  code.take(OptionId::high_watermark, options.high_watermark_percent);
  code.take(OptionId::low_watermark, options.low_watermark_percent);
  code.take(OptionId::fillers, options.fillers);
  code.take(OptionId::evictors, options.evictors);
  code.take(OptionId::managers, options.managers);
  code.take(OptionId::max_fault_events, options.max_fault_events);
  code.take(OptionId::shards, options.shards);
  code.take(OptionId::spin, options.spin_microseconds);
  code.take(OptionId::adapt, options.adapt_budget);
  code.take(OptionId::adapt_history, options.adapt_history_periods);
  code.take(OptionId::adapt_forecast, options.adapt_forecast_periods);
  code.take(OptionId::adapt_period, options.adapt_period_milliseconds);
  code.take(OptionId::publish, options.publish_statistics);
  code.take(OptionId::name, options.name);
  code.take(OptionId::trace, options.trace_file);
  return code;
}

}  // namespace

std::uint64_t budget_bytes(const ResolvedCacheOptions& options, std::uint64_t left_bytes) {
  const OptionRow& row = option_row(OptionId::buffer_size);
  const std::string& share = options.budget_share;
  return share.empty() ? options.budget_bytes : std::max(parse_budget(share, row.name, left_bytes), row.minimum);
}

ResolvedCacheOptions resolve(const CacheOptions& options) {
  const Decisions decisions = decide(cache_scope, settings_of(options));
  check_watermarks(decisions);
  ResolvedCacheOptions resolved;
  resolved.budget_bytes = number_of(decisions, OptionId::buffer_size);
  resolved.fault_mode = static_cast<FaultMode>(number_of(decisions, OptionId::fault_mode));
  resolved.placement = static_cast<Placement>(number_of(decisions, OptionId::placement));
  resolved.policy = text_of(decisions, OptionId::policy);
  resolved.hot_share_percent = small_number_of(decisions, OptionId::hot_share);
  resolved.unmapped_share_percent = small_number_of(decisions, OptionId::unmapped_share);
  resolved.high_watermark_percent = small_number_of(decisions, OptionId::high_watermark);
  resolved.low_watermark_percent = small_number_of(decisions, OptionId::low_watermark);
  resolved.watermarks_chosen =
      chosen(decisions, OptionId::high_watermark) || chosen(decisions, OptionId::low_watermark);
  resolved.fillers = small_number_of(decisions, OptionId::fillers);
  resolved.evictors = small_number_of(decisions, OptionId::evictors);
  resolved.managers = small_number_of(decisions, OptionId::managers);
  resolved.max_fault_events = small_number_of(decisions, OptionId::max_fault_events);
  resolved.shards = small_number_of(decisions, OptionId::shards);
  resolved.spin_microseconds = small_number_of(decisions, OptionId::spin);
  resolved.adapt_budget = number_of(decisions, OptionId::adapt) != 0;
  resolved.adapt_history_periods = small_number_of(decisions, OptionId::adapt_history);
  resolved.adapt_forecast_periods = small_number_of(decisions, OptionId::adapt_forecast);
  resolved.adapt_period_milliseconds = small_number_of(decisions, OptionId::adapt_period);
  resolved.publish_statistics = number_of(decisions, OptionId::publish) != 0;
  resolved.name = text_of(decisions, OptionId::name);
  resolved.trace_file = text_of(decisions, OptionId::trace);
  resolved.access_source = options.access_source;
  resolved.budget_chosen = chosen(decisions, OptionId::buffer_size);
  if (const std::string& budget = text_of(decisions, OptionId::buffer_size); budget.ends_with('%')) {
    resolved.budget_share = budget;
  }
  return resolved;
}

ResolvedRegionOptions resolve(const RegionOptions& options) {
  CodeSettings code;
  code.take(OptionId::page_size, options.page_size_bytes);
  code.take(OptionId::read_ahead, options.read_ahead_bytes);
  const Decisions decisions = decide(region_scope, code);
  const bool page_size_chosen = chosen(decisions, OptionId::page_size);
  const bool small = !page_size_chosen && options.advice == Advice::random;
  return {small ? page_bytes_for_random_access : number_of(decisions, OptionId::page_size),
          number_of(decisions, OptionId::read_ahead), !page_size_chosen && !small};
}

std::vector<OptionReport> report_options() {
  const Decisions decisions = decide(whole_scope, {});
  check_watermarks(decisions);
  std::vector<OptionReport> reports;
  for (const OptionRow& row : option_table()) {
    const Decision& decision = decisions[static_cast<std::size_t>(row.id)];
    OptionReport report{std::string(row.name), std::string(row.environment), decision.value.text,
                        decision.origin,       describe_option(row),         std::nullopt};
    if (row.type != OptionType::choice && row.type != OptionType::text) {
      report.number = decision.value.number;
    }
    reports.push_back(std::move(report));
  }
  return reports;
}

}  // namespace tiermap
