// Every option from code, environment, file and default, in that order; every bad value refused by name.
#include "config/resolve.hpp"

#include <functional>
#include <thread>

#include "config/environment.hpp"
#include "config/option_table.hpp"

namespace tiermap {
namespace {

/// An option, four different good values (as its text is written), and values that are refused.
struct OptionCase {
  OptionId id;
  std::string default_value;  ///< Empty if it depends on the machine.
  std::string in_file;
  std::string in_environment;
  std::string in_code;
  std::vector<std::string> bad;
};

const std::vector<OptionCase>& option_cases() {
  using Id = OptionId;
  static const std::vector<std::string> no_counts = {
      "", "0", "257", "-1", "1e400", "1.5", "two", "99999999999999999999", "1 "};
  static const std::vector<std::string> no_words = {"", "Auto", "best", "1", "auto "};
  static const std::vector<std::string> no_booleans = {"", "2", "maybe", "TRUE!", "-1"};
  static const std::vector<OptionCase> cases = {
      {Id::buffer_size,
       "",
       "64MiB",
       "80MiB",
       "96MiB",
       {"", "10XB", "-1", "1e400", "0", "4095", "0%", "101%", "-5%", "129TiB", "x"}},
      {Id::fault_mode, "auto", "notify", "self-serving", "kernel", no_words},
      {Id::placement, "auto", "move", "copy", "auto", no_words},
      {Id::policy, "cyclic", "fifo", "lru", "hot-fifo", no_words},
      {Id::hot_share, "25", "0", "75", "30", {"", "76", "-1", "100%", "x", "1e400"}},
      {Id::unmapped_share, "0", "1", "75", "30", {"", "76", "-1", "100%", "x", "1e400"}},
      {Id::high_watermark, "95", "91", "100", "92", {"", "0", "101", "-1", "x", "1e400"}},
      {Id::low_watermark, "90", "0", "95", "50", {"", "101", "-1", "x", "1e400"}},
      {Id::fillers, "2", "1", "256", "3", no_counts},
      {Id::evictors, "1", "2", "256", "3", no_counts},
      {Id::managers, "2", "1", "64", "3", no_counts},
      {Id::max_fault_events, "64", "1", "1024", "3", {"", "0", "1025", "-1", "x", "1e400"}},
      {Id::shards, "", "2", "64", "3", no_counts},
      {Id::spin, "20", "0", "1000", "3", {"", "1001", "-1", "x", "20us", "1e400"}},
      {Id::adapt, "false", "true", "false", "true", no_booleans},
      {Id::adapt_history, "5", "1", "100", "3", no_counts},
      {Id::adapt_forecast, "10", "1", "100", "3", no_counts},
      {Id::adapt_period, "100", "10", "60000", "500", {"", "9", "60001", "-1", "x", "1e400"}},
      {Id::publish, "true", "false", "true", "false", no_booleans},
      {Id::name, "", "file", "environment", "code", {"", std::string(64, 'x')}},
      {Id::trace, "", "file", "environment", "code", {"", std::string(4096, 'x')}},
      {Id::page_size,
       "64KiB",
       "4KiB",
       "64MiB",
       "1MiB",
       {"", "10XB", "-1", "1e400", "0", "5000", "2KiB", "128MiB", "50%", "96KiB"}},
      {Id::read_ahead, "4MiB", "0", "1GiB", "1MiB", {"", "10XB", "-1", "1e400", "2GiB", "50%"}},
  };
  return cases;
}

/// Sets an option in code from its text.
void set_in_code(CacheOptions& cache, RegionOptions& region, OptionId id, const std::string& text) {
  const OptionValue value = parse_option(option_row(id), text, "test");
  const auto small = static_cast<std::uint32_t>(value.number);
  const std::map<OptionId, std::function<void()>> setters = {
      {OptionId::buffer_size, [&] { cache.budget_bytes = value.number; }},
      {OptionId::fault_mode, [&] { cache.fault_mode = static_cast<FaultMode>(value.number); }},
      {OptionId::placement, [&] { cache.placement = static_cast<Placement>(value.number); }},
      {OptionId::policy, [&] { cache.policy = text; }},
      {OptionId::hot_share, [&] { cache.hot_share_percent = small; }},
      {OptionId::unmapped_share, [&] { cache.unmapped_share_percent = small; }},
      {OptionId::high_watermark, [&] { cache.high_watermark_percent = small; }},
      {OptionId::low_watermark, [&] { cache.low_watermark_percent = small; }},
      {OptionId::fillers, [&] { cache.fillers = small; }},
      {OptionId::evictors, [&] { cache.evictors = small; }},
      {OptionId::managers, [&] { cache.managers = small; }},
      {OptionId::max_fault_events, [&] { cache.max_fault_events = small; }},
      {OptionId::shards, [&] { cache.shards = small; }},
      {OptionId::spin, [&] { cache.spin_microseconds = small; }},
      {OptionId::adapt, [&] { cache.adapt_budget = value.number != 0; }},
      {OptionId::adapt_history, [&] { cache.adapt_history_periods = small; }},
      {OptionId::adapt_forecast, [&] { cache.adapt_forecast_periods = small; }},
      {OptionId::adapt_period, [&] { cache.adapt_period_milliseconds = small; }},
      {OptionId::publish, [&] { cache.publish_statistics = value.number != 0; }},
      {OptionId::name, [&] { cache.name = text; }},
      {OptionId::trace, [&] { cache.trace_file = text; }},
      {OptionId::page_size, [&] { region.page_size_bytes = value.number; }},
      {OptionId::read_ahead, [&] { region.read_ahead_bytes = value.number; }},
  };
  setters.at(id)();
}

/// What an option is resolved to, as its text is written.
std::string resolved_text(const CacheOptions& cache, const RegionOptions& region, OptionId id) {
  const ResolvedCacheOptions c = resolve(cache);
  const ResolvedRegionOptions r = resolve(region);
  const auto as_text = [&](std::uint64_t number) { return make_option(option_row(id), number, "test").text; };
  const std::map<OptionId, std::string> texts = {
      {OptionId::policy, c.policy},
      {OptionId::name, c.name},
      {OptionId::trace, c.trace_file},
  };
  const std::map<OptionId, std::uint64_t> numbers = {
      {OptionId::buffer_size, c.budget_bytes},
      {OptionId::fault_mode, static_cast<std::uint64_t>(c.fault_mode)},
      {OptionId::placement, static_cast<std::uint64_t>(c.placement)},
      {OptionId::hot_share, c.hot_share_percent},
      {OptionId::unmapped_share, c.unmapped_share_percent},
      {OptionId::high_watermark, c.high_watermark_percent},
      {OptionId::low_watermark, c.low_watermark_percent},
      {OptionId::fillers, c.fillers},
      {OptionId::evictors, c.evictors},
      {OptionId::managers, c.managers},
      {OptionId::max_fault_events, c.max_fault_events},
      {OptionId::shards, c.shards},
      {OptionId::spin, c.spin_microseconds},
      {OptionId::adapt, c.adapt_budget ? 1 : 0},
      {OptionId::adapt_history, c.adapt_history_periods},
      {OptionId::adapt_forecast, c.adapt_forecast_periods},
      {OptionId::adapt_period, c.adapt_period_milliseconds},
      {OptionId::publish, c.publish_statistics ? 1 : 0},
      {OptionId::page_size, r.page_size_bytes},
      {OptionId::read_ahead, r.read_ahead_bytes},
  };
  const auto text = texts.find(id);
  return text != texts.end() ? text->second : as_text(numbers.at(id));
}

using Resolve = CleanEnvironment;

TEST_F(Resolve, EveryOptionHasACase) {
  ASSERT_EQ(option_cases().size(), option_count);
  for (std::size_t option = 0; option < option_count; ++option) {
    EXPECT_EQ(static_cast<std::size_t>(option_cases()[option].id), option);
  }
}

TEST_F(Resolve, CodeWinsOverEnvironmentOverFileOverDefault) {
  for (const OptionCase& option : option_cases()) {
    SCOPED_TRACE(option_row(option.id).name);
    clear_variables();
    CacheOptions cache;
    RegionOptions region;
    if (!option.default_value.empty()) {
      EXPECT_EQ(resolved_text(cache, region, option.id), option.default_value);
    }
    use_file(std::string(option_row(option.id).name) + ": " + option.in_file + "\n");
    EXPECT_EQ(resolved_text(cache, region, option.id), option.in_file);
    set(std::string(option_row(option.id).environment), option.in_environment);
    EXPECT_EQ(resolved_text(cache, region, option.id), option.in_environment);
    set_in_code(cache, region, option.id, option.in_code);
    EXPECT_EQ(resolved_text(cache, region, option.id), option.in_code);
    ::unsetenv("TIERMAP_CONFIG");
    ::unsetenv(option_row(option.id).environment.data());
    EXPECT_EQ(resolved_text(cache, region, option.id), option.in_code);
  }
}

TEST_F(Resolve, BadValuesInTheEnvironmentAreRefusedByName) {
  for (const OptionCase& option : option_cases()) {
    const std::string variable(option_row(option.id).environment);
    for (const std::string& bad : option.bad) {
      SCOPED_TRACE(variable + "=" + bad);
      clear_variables();
      set(variable, bad);
      const std::string message = refusal([&] { resolved_text({}, {}, option.id); });
      EXPECT_TRUE(message.starts_with(variable + " '" + bad.substr(0, 60))) << message;
      EXPECT_NE(message.find(": "), std::string::npos) << message;
    }
  }
}

TEST_F(Resolve, BadValuesInTheFileAreRefusedWithTheirLine) {
  for (const OptionCase& option : option_cases()) {
    const std::string name(option_row(option.id).name);
    for (const std::string& bad : option.bad) {
      SCOPED_TRACE(name + ": " + bad);
      const std::string path = use_file("# comment\n\n" + name + ": \"" + bad + "\"\n");
      const std::string message = refusal([&] { resolved_text({}, {}, option.id); });
      EXPECT_TRUE(message.starts_with(path + ":3: " + name + " '" + bad.substr(0, 60))) << message;
    }
  }
}

TEST_F(Resolve, BadNumbersInCodeAreRefusedByName) {
  CacheOptions cache;
  cache.fillers = 257;
  EXPECT_EQ(refusal([&] { resolve(cache); }), "fillers 257 is out of range: choose 1 to 256");
  cache = {};
  cache.fault_mode = static_cast<FaultMode>(9);
  EXPECT_NE(refusal([&] { resolve(cache); }).find("fault mode 9 is out of range"), std::string::npos);
  cache = {};
  cache.policy = "best";
  EXPECT_NE(refusal([&] { resolve(cache); }).find("policy 'best' is unknown: choose fifo,"), std::string::npos);
  cache = {};
  cache.budget_bytes = 0;
  EXPECT_NE(refusal([&] { resolve(cache); }).find("buffer size 0 is out of range"), std::string::npos);
  RegionOptions region;
  region.page_size_bytes = 5000;
  EXPECT_EQ(refusal([&] { resolve(region); }),
            "page size 5000 is not a power of two: choose 4KiB to 64MiB, a power of two");
  region.page_size_bytes = 2048;
  EXPECT_NE(refusal([&] { resolve(region); }).find("page size 2KiB is out of range"), std::string::npos);
}

TEST_F(Resolve, PagesAreSmallWhereAccessIsSaidToBeRandomAndNobodyChose) {
  RegionOptions region;
  EXPECT_EQ(resolve(region).page_size_bytes, 64U << 10);
  region.advice = Advice::random;
  EXPECT_EQ(resolve(region).page_size_bytes, 4U << 10);
  set("TIERMAP_PAGE_SIZE", "64KiB");
  EXPECT_EQ(resolve(region).page_size_bytes, 64U << 10);
  region.page_size_bytes = 1U << 20;
  EXPECT_EQ(resolve(region).page_size_bytes, 1U << 20);
}

TEST_F(Resolve, WatermarksMustNotCross) {
  set("TIERMAP_LOW_WATERMARK", "97");
  EXPECT_EQ(refusal([] { resolve(CacheOptions{}); }),
            "low watermark 97 (environment) is above high watermark 95 (default): choose at most 95");
  CacheOptions cache;
  cache.high_watermark_percent = 97;
  EXPECT_EQ(resolve(cache).low_watermark_percent, 97U);
}

TEST_F(Resolve, TheLowWatermarkFollowsALowHighOne) {
  CacheOptions cache;
  cache.high_watermark_percent = 50;
  EXPECT_EQ(resolve(cache).low_watermark_percent, 45U);
  cache.high_watermark_percent = 3;
  EXPECT_EQ(resolve(cache).low_watermark_percent, 0U);
}

TEST_F(Resolve, ABadValueIsRefusedEvenWhereItIsOverridden) {
  use_file("fillers: 0\n");
  set("TIERMAP_FILLERS", "4");
  EXPECT_NE(refusal([] { resolve(CacheOptions{}); }).find("fillers '0' is out of range"), std::string::npos);
}

TEST_F(Resolve, DefaultsOfTheMachine) {
  const ResolvedCacheOptions resolved = resolve(CacheOptions{});
  EXPECT_GE(resolved.budget_bytes, 4096U);
  EXPECT_EQ(resolved.shards, std::max(1U, (std::thread::hardware_concurrency() + 15) / 16));
  EXPECT_EQ(resolved.name, "test-config");
  set("TIERMAP_BUFFER_SIZE", "0.000001%");
  EXPECT_GE(resolve(CacheOptions{}).budget_bytes, 4096U);
}

TEST_F(Resolve, PercentSignsAndOtherSpellings) {
  set("TIERMAP_HIGH_WATERMARK", "93%");
  set("TIERMAP_ADAPT", "on");
  set("TIERMAP_PUBLISH", "0");
  const ResolvedCacheOptions resolved = resolve(CacheOptions{});
  EXPECT_EQ(resolved.high_watermark_percent, 93U);
  EXPECT_TRUE(resolved.adapt_budget);
  EXPECT_FALSE(resolved.publish_statistics);
}

TEST_F(Resolve, ReportsEachValueAndItsOrigin) {
  const std::string path = use_file("fillers: 7\npage_size: 1MiB\n");
  set("TIERMAP_FILLERS", "8");
  set("TIERMAP_BUFFER_SIZE", "25%");
  std::map<std::string, OptionReport> reports;
  for (const OptionReport& report : report_options()) {
    reports[report.name] = report;
  }
  ASSERT_EQ(reports.size(), option_count);
  EXPECT_EQ(reports["fillers"].value, "8");
  EXPECT_EQ(reports["fillers"].origin, "environment");
  EXPECT_EQ(reports["page_size"].value, "1MiB");
  EXPECT_EQ(reports["page_size"].origin, "file " + path + ":2");
  EXPECT_EQ(reports["page_size"].number, 1048576U);
  EXPECT_EQ(reports["evictors"].origin, "default");
  EXPECT_EQ(reports["buffer_size"].value, "25%");
  EXPECT_GT(reports["buffer_size"].number.value_or(0), 4096U);
  for (const auto& [name, report] : reports) {
    EXPECT_TRUE(report.environment.starts_with("TIERMAP_")) << name;
    EXPECT_TRUE(report.meaning.ends_with(".")) << name;
  }
}

TEST_F(Resolve, NamesFollowFromVariables) {
  for (const OptionRow& row : option_table()) {
    std::string expected = "TIERMAP_";
    for (const char letter : row.name) {
      expected += static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
    }
    EXPECT_EQ(row.environment, expected);
  }
}

TEST_F(Resolve, FaultModesOfCommandLines) {
  for (const FaultMode mode : {FaultMode::automatic, FaultMode::notify, FaultMode::self_serving, FaultMode::kernel}) {
    EXPECT_EQ(parse_fault_mode(fault_mode_name(mode), "--fault-mode"), mode);
  }
  EXPECT_EQ(refusal([] { parse_fault_mode("fast", "--fault-mode"); }),
            "--fault-mode 'fast' is unknown: choose auto, notify, self-serving or kernel");
}

}  // namespace
}  // namespace tiermap
