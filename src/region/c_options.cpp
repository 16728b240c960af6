#include "region/c_options.hpp"

#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

static_assert(static_cast<int>(FaultMode::automatic) == TIERMAP_FAULT_AUTOMATIC &&
              static_cast<int>(FaultMode::notify) == TIERMAP_FAULT_NOTIFY &&
              static_cast<int>(FaultMode::self_serving) == TIERMAP_FAULT_SELF_SERVING &&
              static_cast<int>(FaultMode::kernel) == TIERMAP_FAULT_KERNEL);
static_assert(static_cast<int>(Placement::automatic) == TIERMAP_PLACEMENT_AUTOMATIC &&
              static_cast<int>(Placement::move) == TIERMAP_PLACEMENT_MOVE &&
              static_cast<int>(Placement::copy) == TIERMAP_PLACEMENT_COPY);
static_assert(static_cast<int>(Advice::normal) == TIERMAP_ADVICE_NORMAL &&
              static_cast<int>(Advice::sequential) == TIERMAP_ADVICE_SEQUENTIAL &&
              static_cast<int>(Advice::random) == TIERMAP_ADVICE_RANDOM &&
              static_cast<int>(Advice::will_need) == TIERMAP_ADVICE_WILL_NEED &&
              static_cast<int>(Advice::dont_need) == TIERMAP_ADVICE_DONT_NEED &&
              static_cast<int>(Advice::cold) == TIERMAP_ADVICE_COLD &&
              static_cast<int>(Advice::hot) == TIERMAP_ADVICE_HOT);

/// A whole struct of this version: what the caller has, and defaults for what it does not know of.
template <typename Struct>
Struct whole(const Struct& options, Struct defaults, const char* name) {
  if (options.struct_bytes < sizeof options.struct_bytes || options.struct_bytes > sizeof(Struct)) {
    throw OptionError("struct_bytes " + std::to_string(options.struct_bytes) + " of " + name + " is not " +
                      std::to_string(sizeof(Struct)) + ": start with " + name +
                      "_init(), and use the header of this library");
  }
  std::memcpy(&defaults, &options, options.struct_bytes);
  return defaults;
}

[[noreturn]] void refuse(const char* name, std::int64_t value, const std::string& range) {
  throw OptionError(std::string(name) + " " + std::to_string(value) + " is not " + range + ": choose one of these");
}

std::optional<std::uint32_t> number(const char* name, std::int32_t value) {
  if (value == TIERMAP_NOT_SET) {
    return std::nullopt;
  }
  if (value < 0) {
    refuse(name, value, "0 or more, or TIERMAP_NOT_SET");
  }
  return static_cast<std::uint32_t>(value);
}

std::optional<bool> yes_or_no(const char* name, std::int32_t value) {
  if (value == TIERMAP_NOT_SET) {
    return std::nullopt;
  }
  if (value != 0 && value != 1) {
    refuse(name, value, "0, 1 or TIERMAP_NOT_SET");
  }
  return value == 1;
}

bool flag(const char* name, std::int32_t value) {
  if (value != 0 && value != 1) {
    refuse(name, value, "0 or 1");
  }
  return value == 1;
}

template <typename Enum>
std::optional<Enum> choice(const char* name, std::int32_t value, Enum last) {
  if (value == TIERMAP_NOT_SET) {
    return std::nullopt;
  }
  if (value < 0 || value > static_cast<std::int32_t>(last)) {
    refuse(name, value, "0 to " + std::to_string(static_cast<int>(last)) + " or TIERMAP_NOT_SET");
  }
  return static_cast<Enum>(value);
}

std::optional<std::string> text(const char* value) {
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

}  // namespace

Advice advice_from(int advice) {
  if (advice < TIERMAP_ADVICE_NORMAL || advice > TIERMAP_ADVICE_HOT) {
    refuse("advice", advice, "0 to " + std::to_string(TIERMAP_ADVICE_HOT));
  }
  return static_cast<Advice>(advice);
}

CacheOptions cache_options_from(const tiermap_cache_options* given) {
  tiermap_cache_options defaults;
  tiermap_cache_options_init(&defaults);
  const tiermap_cache_options options = given == nullptr ? defaults : whole(*given, defaults, "tiermap_cache_options");
  CacheOptions result;
  if (options.budget_bytes != 0) {
    result.budget_bytes = options.budget_bytes;
  }
  result.fault_mode = choice("fault_mode", options.fault_mode, FaultMode::kernel);
  result.placement = choice("placement", options.placement, Placement::copy);
  result.policy = text(options.policy);
  result.name = text(options.name);
  result.trace_file = text(options.trace_file);
  result.hot_share_percent = number("hot_share_percent", options.hot_share_percent);
  result.unmapped_share_percent = number("unmapped_share_percent", options.unmapped_share_percent);
  result.high_watermark_percent = number("high_watermark_percent", options.high_watermark_percent);
  result.low_watermark_percent = number("low_watermark_percent", options.low_watermark_percent);
  result.fillers = number("fillers", options.fillers);
  result.evictors = number("evictors", options.evictors);
  result.managers = number("managers", options.managers);
  result.max_fault_events = number("max_fault_events", options.max_fault_events);
  result.shards = number("shards", options.shards);
  result.spin_microseconds = number("spin_microseconds", options.spin_microseconds);
  result.adapt_budget = yes_or_no("adapt_budget", options.adapt_budget);
  result.adapt_history_periods = number("adapt_history_periods", options.adapt_history_periods);
  result.adapt_forecast_periods = number("adapt_forecast_periods", options.adapt_forecast_periods);
  result.adapt_period_milliseconds = number("adapt_period_milliseconds", options.adapt_period_milliseconds);
  result.publish_statistics = yes_or_no("publish_statistics", options.publish_statistics);
  return result;
}

RegionOptions region_options_from(const tiermap_region_options* given) {
  tiermap_region_options defaults;
  tiermap_region_options_init(&defaults);
  const tiermap_region_options options =
      given == nullptr ? defaults : whole(*given, defaults, "tiermap_region_options");
  if (options.unused != 0) {
    refuse("unused", options.unused, "0");
  }
  RegionOptions result;
  result.access = flag("writable", options.writable) ? Access::read_write : Access::read_only;
  result.sharing = flag("private_copy", options.private_copy) ? Sharing::private_copy : Sharing::shared;
  result.manual_flush = flag("manual_flush", options.manual_flush);
  result.advice = advice_from(options.advice);
  result.offset = options.offset;
  result.length = options.length;
  result.reserve_bytes = options.reserve_bytes;
  result.address = options.address;
  if (options.page_size_bytes != 0) {
    result.page_size_bytes = options.page_size_bytes;
  }
  if (options.read_ahead_bytes != TIERMAP_NOT_SET) {
    if (options.read_ahead_bytes < 0) {
      refuse("read_ahead_bytes", options.read_ahead_bytes, "0 or more, or TIERMAP_NOT_SET");
    }
    result.read_ahead_bytes = static_cast<std::uint64_t>(options.read_ahead_bytes);
  }
  return result;
}

}  // namespace tiermap

void tiermap_cache_options_init_sized(tiermap_cache_options* options, size_t bytes) noexcept {
  tiermap_cache_options defaults{};
  defaults.fault_mode = TIERMAP_NOT_SET;
  defaults.placement = TIERMAP_NOT_SET;
  for (std::int32_t* member :
       {&defaults.hot_share_percent, &defaults.unmapped_share_percent, &defaults.high_watermark_percent,
        &defaults.low_watermark_percent, &defaults.fillers, &defaults.evictors, &defaults.managers,
        &defaults.max_fault_events, &defaults.shards, &defaults.spin_microseconds, &defaults.adapt_budget,
        &defaults.adapt_history_periods, &defaults.adapt_forecast_periods, &defaults.adapt_period_milliseconds,
        &defaults.publish_statistics}) {
    *member = TIERMAP_NOT_SET;
  }
  // A caller with a newer header keeps its own size, which says so to the functions that read the struct.
  defaults.struct_bytes = static_cast<std::uint32_t>(bytes);
  std::memcpy(options, &defaults, bytes < sizeof defaults ? bytes : sizeof defaults);
}

void tiermap_region_options_init_sized(tiermap_region_options* options, size_t bytes) noexcept {
  tiermap_region_options defaults{};
  defaults.read_ahead_bytes = TIERMAP_NOT_SET;
  defaults.struct_bytes = static_cast<std::uint32_t>(bytes);
  std::memcpy(options, &defaults, bytes < sizeof defaults ? bytes : sizeof defaults);
}
