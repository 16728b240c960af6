#include "umap_interface/settings.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string>
#include <thread>

#include "cache/frame_pool.hpp"
#include "config/misspelt_variables.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "platform/memory_limits.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"
#include "umap_interface/log.hpp"

namespace tiermap::umap_interface {
namespace {

constexpr std::uint64_t largest_engine_page_bytes = 64ULL << 20;
constexpr std::uint64_t largest_read_ahead_bytes = 1ULL << 30;
constexpr std::uint64_t largest_page_bytes = 1ULL << 40;
constexpr std::uint64_t most_engine_threads = 256;
constexpr std::uint64_t most_engine_events = 1024;

constexpr std::array<SettingRow, setting_count> rows = {{
    {Setting::page_size, "UMAP_PAGESIZE", "page_size", kernel_page_bytes, largest_page_bytes, "bytes"},
    {Setting::page_fillers, "UMAP_PAGE_FILLERS", "fillers", 1, 65536, "threads"},
    {Setting::page_evictors, "UMAP_PAGE_EVICTORS", "evictors", 1, 65536, "threads"},
    {Setting::high_threshold, "UMAP_EVICT_HIGH_WATER_THRESHOLD", "high_watermark", 1, 100, "percent"},
    {Setting::low_threshold, "UMAP_EVICT_LOW_WATER_THRESHOLD", "low_watermark", 0, 100, "percent"},
    {Setting::buffer_pages, "UMAP_BUFSIZE", "buffer_size", 1, 1ULL << 40, "pages"},
    {Setting::read_ahead, "UMAP_READ_AHEAD", "read_ahead", 0, 1ULL << 40, "pages"},
    {Setting::max_fault_events, "UMAP_MAX_FAULT_EVENTS", "max_fault_events", 1, 65536, "messages"},
}};

std::uint64_t parse(const SettingRow& row, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw OptionError(std::string(row.variable) + " " + quote_value(text) + " is not a plain number of " +
                      std::string(row.unit) + ": choose " + std::to_string(row.minimum) + " to " +
                      std::to_string(row.maximum));
  }
  check_setting(row, value, row.variable);
  return value;
}

/// Once: what is free later is less by what the buffer holds. No static that a thread makes, which in a child that
/// another one forks meanwhile would never be done.
std::uint64_t default_buffer_bytes() {
  static std::atomic<std::uint64_t> found{0};
  std::uint64_t bytes = found.load();
  if (bytes == 0) {
    const std::uint64_t now = memory_for_budgets() / 100 * 80;
    bytes = found.compare_exchange_strong(bytes, now) ? now : bytes;
  }
  return bytes;
}

std::uint64_t hardware_threads() {
  return std::max(1U, std::thread::hardware_concurrency());
}

std::uint64_t default_of(Setting setting, std::uint64_t page_bytes, const Choices& choices) {
  constexpr std::uint64_t high_percent = 90;
  constexpr std::uint64_t low_percent = 70;
  switch (setting) {
    case Setting::page_size:
      return kernel_page_bytes;
    case Setting::high_threshold:
      return high_percent;
    case Setting::low_threshold:
      return std::min(low_percent, choices[static_cast<std::size_t>(Setting::high_threshold)].value_or(high_percent));
    case Setting::buffer_pages:
      return std::max<std::uint64_t>(1, default_buffer_bytes() / page_bytes);
    case Setting::read_ahead:
      return 0;
    case Setting::page_fillers:
    case Setting::page_evictors:
    case Setting::max_fault_events:
      return hardware_threads();
  }
  return 0;
}

/// Once: a setting that was meant and is not read is as good as a call that failed.
void tell_of_misspelt() {
  static std::atomic_flag told;
  if (told.test_and_set()) {
    return;
  }
  std::vector<std::string_view> known = {"UMAP_LOG_LEVEL"};
  for (const SettingRow& row : rows) {
    known.push_back(row.variable);
  }
  for (const std::string& line : find_misspelt_variables("UMAP_", known)) {
    log(LogLevel::error, line);
  }
}

std::uint32_t at_most(std::uint64_t value, std::uint64_t most) {
  return static_cast<std::uint32_t>(std::min(value, most));
}

}  // namespace

const std::array<SettingRow, setting_count>& setting_rows() {
  return rows;
}

void check_setting(const SettingRow& row, std::uint64_t value, std::string_view what) {
  const auto refuse = [&](const std::string& problem) {
    throw OptionError(std::string(what) + " " + std::to_string(value) + " " + problem);
  };
  if (value < row.minimum || value > row.maximum) {
    refuse("is out of range: choose " + std::to_string(row.minimum) + " to " + std::to_string(row.maximum) + " " +
           std::string(row.unit));
  }
  if (row.setting == Setting::page_size && value % kernel_page_bytes != 0) {
    refuse("is not a multiple of the system's page size: choose one, such as 65536");
  }
}

Choices decide(const Choices& set_in_code) {
  tell_of_misspelt();
  Choices choices = set_in_code;
  for (const SettingRow& row : rows) {
    const char* text = std::getenv(row.variable.data());
    if (text == nullptr) {
      continue;
    }
    // A bad value is refused even where a better source overrides it: it was meant to do something.
    const std::uint64_t value = parse(row, text);
    std::optional<std::uint64_t>& choice = choices[static_cast<std::size_t>(row.setting)];
    choice = choice.value_or(value);
  }
  const std::vector<OptionReport> reports = report_options();
  const auto option = [&](const SettingRow& row) -> std::optional<std::uint64_t> {
    const auto found = std::ranges::find(reports, row.tiermap_option, &OptionReport::name);
    return found == reports.end() || found->origin == "default" ? std::nullopt : found->number;
  };
  for (const SettingRow& row : rows) {
    std::optional<std::uint64_t>& choice = choices[static_cast<std::size_t>(row.setting)];
    if (choice.has_value()) {
      continue;
    }
    choice = option(row);
    if (choice.has_value() && (row.setting == Setting::buffer_pages || row.setting == Setting::read_ahead)) {
      const std::uint64_t page_bytes =
          choices[static_cast<std::size_t>(Setting::page_size)].value_or(kernel_page_bytes);
      choice = std::max(row.minimum, *choice / page_bytes);
    }
  }
  return choices;
}

Settings::Settings(const Choices& choices) : choices_(choices) {
  const std::uint64_t page_bytes = choices[static_cast<std::size_t>(Setting::page_size)].value_or(kernel_page_bytes);
  for (const SettingRow& row : rows) {
    const auto index = static_cast<std::size_t>(row.setting);
    values_[index] = choices[index].value_or(default_of(row.setting, page_bytes, choices));
  }
}

void Settings::check() const {
  const std::uint64_t high = (*this)[Setting::high_threshold];
  const std::uint64_t low = (*this)[Setting::low_threshold];
  if (low > high) {
    throw OptionError(std::string(setting_row(Setting::low_threshold).variable) + " " + std::to_string(low) +
                      " is above " + std::string(setting_row(Setting::high_threshold).variable) + " " +
                      std::to_string(high) + ": choose at most " + std::to_string(high));
  }
}

std::uint64_t Settings::engine_page_bytes() const {
  const std::uint64_t page_bytes = (*this)[Setting::page_size];
  return std::min(page_bytes & (~page_bytes + 1), largest_engine_page_bytes);
}

std::uint64_t Settings::read_ahead_bytes() const {
  const std::uint64_t pages = (*this)[Setting::read_ahead];
  const std::uint64_t page_bytes = (*this)[Setting::page_size];
  return pages > largest_read_ahead_bytes / page_bytes ? largest_read_ahead_bytes : pages * page_bytes;
}

std::uint64_t Settings::least_budget_bytes() const {
  constexpr std::uint64_t least_pages = 8;
  return least_pages * FramePool::cost(engine_page_bytes());
}

std::uint64_t Settings::budget_bytes() const {
  const std::uint64_t engine_page = engine_page_bytes();
  const std::uint64_t page_cost = (*this)[Setting::page_size] / engine_page * FramePool::cost(engine_page);
  // More than the machine has is as good as all of it.
  const std::uint64_t pages = std::min((*this)[Setting::buffer_pages], read_machine_memory().total / page_cost);
  return std::max(pages * page_cost, least_budget_bytes());
}

CacheOptions Settings::cache_options() const {
  CacheOptions options;
  options.budget_bytes = budget_bytes();
  options.high_watermark_percent = static_cast<std::uint32_t>((*this)[Setting::high_threshold]);
  options.low_watermark_percent = static_cast<std::uint32_t>((*this)[Setting::low_threshold]);
  options.fillers = at_most((*this)[Setting::page_fillers], most_engine_threads);
  options.evictors = at_most((*this)[Setting::page_evictors], most_engine_threads);
  options.max_fault_events = at_most((*this)[Setting::max_fault_events], most_engine_events);
  return options;
}

}  // namespace tiermap::umap_interface
