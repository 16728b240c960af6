// `tiermap top` sees the live caches of another process, and gives the terminal back.
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <termios.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "observe/publication.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

using nlohmann::json;

/// A cache of this process, which is another one for the command, and a thread that counts in it.
class LiveCache {
 public:
  explicit LiveCache(const std::string& name)
      : publication_(name, "lru", "notify", true),
        region_(publication_.add_region("file:///some/file", 1 << 20, 4096)),
        thread_([this] { count(); }) {
    publication_.cache_counters().budget_bytes = 1 << 20;
  }
  ~LiveCache() {
    stopped_ = true;
    thread_.join();
  }
  void set_budget(std::uint64_t bytes) { publication_.cache_counters().budget_bytes = bytes; }

 private:
  void count() {
    while (!stopped_) {
      for (CounterBlock* block : {&publication_.cache_counters(), &region_->counters}) {
        block->add(Counter::read_faults, 10);
        block->add(Counter::fills, 3);
        block->add(Counter::rescues, 1);
        block->record(Stage::total, 10'000);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Publication publication_;
  PublishedRegion* region_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

/// The cache of that name in the command's JSON; null if it is not there.
json find_cache(const std::string& output, const std::string& name) {
  const json report = json::parse(output);
  for (const json& cache : report.at("caches")) {
    if (cache.at("name") == name) {
      return cache;
    }
  }
  return nullptr;
}

TEST(Top, OnceSeesAnotherProcess) {
  const LiveCache live("top-once");
  const CommandResult result = run_tiermap({"top", "--once", "--interval", "0.3"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.errors, "");
  EXPECT_NE(result.output.find(std::to_string(::getpid()) + " top-once"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("file:///some/file"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("25%"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("notify, lru"), std::string::npos) << result.output;
}

TEST(Top, JsonHasTotalsRatesAndLatencies) {
  const LiveCache live("top-json");
  const CommandResult result = run_tiermap({"top", "--json", "--interval", "0.3"});
  EXPECT_EQ(result.exit_code, 0);
  const json cache = find_cache(result.output, "top-json");
  ASSERT_FALSE(cache.is_null()) << result.output;
  EXPECT_EQ(cache.at("process"), ::getpid());
  EXPECT_EQ(cache.at("budget_bytes"), 1 << 20);
  EXPECT_GT(cache.at("counters").at("fills"), 0);
  EXPECT_GT(cache.at("per_second").at("fills"), 0);
  EXPECT_EQ(cache.at("per_second").at("evictions"), 0);
  EXPECT_EQ(cache.at("stages").at("total").at("p50_nanoseconds"), 16383);
  EXPECT_EQ(cache.at("stages").at("read").at("count"), 0);
  ASSERT_EQ(cache.at("regions").size(), 1U);
  EXPECT_EQ(cache.at("regions")[0].at("page_size_bytes"), 4096);
  EXPECT_GT(cache.at("regions")[0].at("per_second").at("read_faults"), 0);
}

/// A region over tiers, which a thread reads: half of it is in the tier in the end.
class ReadTiers {
 public:
  explicit ReadTiers(const std::string& name) {
    write_file(directory_ / "store", std::string(64 << 10, 'a'));
    write_file(directory_ / "tiers.yaml",
               "block: 4KiB\norganize_seconds: 0.005\ntiers: [{name: quick, capacity: 32KiB}]\n");
    CacheOptions options;
    options.name = name;
    options.budget_bytes = 4 << 20;
    cache_ = std::make_unique<Cache>(options);
    RegionOptions small_pages;
    small_pages.page_size_bytes = 4096;
    region_ =
        cache_->map("tiered://" + directory_.encoded() + "/tiers.yaml?store=" + (directory_ / "store"), small_pages);
    thread_ = std::thread([this] {
      while (!stopped_) {
        for (std::size_t at = 0; at < region_.size(); at += 4096) {
          static_cast<void>(*static_cast<const volatile std::byte*>(region_.data() + at));
        }
        region_.discard({0, region_.size()});
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~ReadTiers() {
    stopped_ = true;
    thread_.join();
  }

 private:
  const TemporaryDirectory directory_;
  std::unique_ptr<Cache> cache_;
  Region region_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

TEST(Top, ShowsTheTiersOfARegion) {
  const ReadTiers live("top-tiers");
  const CommandResult table = run_tiermap({"top", "--once", "--interval", "0.3"});
  EXPECT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_NE(table.output.find("\n    quick "), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("\n    backing "), std::string::npos) << table.output;
  EXPECT_NE(table.output.find("% of reads\n"), std::string::npos) << table.output;
  const CommandResult result = run_tiermap({"top", "--json", "--interval", "0.3"});
  const json cache = find_cache(result.output, "top-tiers");
  ASSERT_FALSE(cache.is_null()) << result.output;
  const json& tiers = cache.at("regions").at(0).at("tiers");
  ASSERT_EQ(tiers.size(), 2U);
  const json& quick = tiers[0];
  const json& backing = tiers[1];
  EXPECT_EQ(quick.at("name"), "quick");
  EXPECT_EQ(quick.at("capacity_bytes"), 32 << 10);
  EXPECT_GT(quick.at("used_bytes"), 0);
  EXPECT_GT(quick.at("read_bytes"), 0);
  EXPECT_GT(quick.at("per_second").at("read_bytes"), 0);
  EXPECT_EQ(quick.at("failed"), false);
  EXPECT_EQ(backing.at("name"), "backing");
  EXPECT_EQ(backing.at("capacity_bytes"), 64 << 10);
  EXPECT_GT(quick.at("share_of_reads"), 0);
  EXPECT_NEAR(quick.at("share_of_reads").get<double>() + backing.at("share_of_reads").get<double>(), 1, 1e-9);
}

TEST(Top, ARegionWithoutTiersHasNone) {
  const LiveCache live("top-no-tiers");
  const CommandResult result = run_tiermap({"top", "--json", "--interval", "0.1"});
  EXPECT_TRUE(find_cache(result.output, "top-no-tiers").at("regions").at(0).at("tiers").empty()) << result.output;
}

TEST(Top, APipeIsPrintedOnce) {
  const LiveCache live("top-pipe");
  const CommandResult result = run_tiermap({"top", "--interval", "0.1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("top-pipe"), std::string::npos);
  EXPECT_EQ(result.output.find('\x1b'), std::string::npos);
}

TEST(Top, ACacheThatIsGoneIsNotShown) {
  {
    const LiveCache live("top-gone");
  }
  const CommandResult result = run_tiermap({"top", "--json", "--interval", "0.1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(find_cache(result.output, "top-gone").is_null());
}

TEST(Top, ACacheThatCameBetweenTheLooksHasRates) {
  const LiveCache first("top-first");
  std::unique_ptr<LiveCache> second;
  std::thread starter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    second = std::make_unique<LiveCache>("top-second");
  });
  const CommandResult result = run_tiermap({"top", "--json", "--interval", "2"});
  starter.join();
  const json cache = find_cache(result.output, "top-second");
  ASSERT_FALSE(cache.is_null()) << result.output;
  EXPECT_GT(cache.at("per_second").at("fills"), 0);
  EXPECT_GT(cache.at("regions").at(0).at("per_second").at("fills"), 0);
}

/// What `top` did on a terminal of its own.
struct TerminalRun {
  std::string output;
  int exit_code = -1;
  bool settings_restored = false;
};

bool is_drawn(const std::string& output) {
  return output.find("q quits") != std::string::npos;
}

/// Where the cache stands in what was drawn last; empty if it does not.
std::string line_drawn_last(const std::string& output, const std::string& cache) {
  const std::size_t end = output.rfind("\x1b[J");
  const std::size_t start = end == std::string::npos ? end : output.rfind("\x1b[H", end);
  if (start == std::string::npos) {
    return "";
  }
  const std::string screen = output.substr(start, end - start);
  const std::size_t line = screen.find(cache);
  return line == std::string::npos ? "" : screen.substr(line, screen.find('\n', line) - line);
}

/// Runs `top`. `act` gets its process, its terminal and what it has written whenever there is more of it, and says
/// whether it has done what is to end it.
template <typename Action>
TerminalRun run_on_terminal(Action act) {
  int outer = -1;
  int inner = -1;
  winsize size{};
  size.ws_col = 200;
  size.ws_row = 30;
  TerminalRun run;
  if (::openpty(&outer, &inner, nullptr, nullptr, &size) != 0) {
    return run;
  }
  termios before{};
  ::tcgetattr(inner, &before);
  const pid_t child = ::fork();
  if (child == 0) {
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      ::dup2(inner, descriptor);
    }
    become_command({"top", "--interval", "0.2"}, {});
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool acted = false;
  while (std::chrono::steady_clock::now() < end) {
    pollfd input{outer, POLLIN, 0};
    if (::poll(&input, 1, 100) > 0) {
      char buffer[4096];
      const ssize_t got = ::read(outer, buffer, sizeof(buffer));
      run.output.append(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    acted = acted || act(child, outer, run.output);
    if (run.output.ends_with("\x1b[?1049l")) {
      break;
    }
  }
  if (!acted) {
    ::kill(child, SIGKILL);
  }
  run.exit_code = exit_code_of(child);
  termios after{};
  ::tcgetattr(inner, &after);
  run.settings_restored = before.c_lflag == after.c_lflag && before.c_cc[VSUSP] == after.c_cc[VSUSP];
  ::close(outer);
  ::close(inner);
  return run;
}

TEST(TopOnATerminal, QQuitsAndTheTerminalIsAsBefore) {
  const LiveCache live("top-live");
  const TerminalRun run = run_on_terminal([](pid_t, int terminal, const std::string& output) {
    return is_drawn(output) && ::write(terminal, "xq", 2) == 2;
  });
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.settings_restored);
  EXPECT_TRUE(run.output.starts_with("\x1b[?1049h"));
  EXPECT_TRUE(run.output.ends_with("\x1b[?25h\x1b[?1049l"));
  EXPECT_NE(run.output.find("top-live"), std::string::npos);
}

TEST(TopOnATerminal, AnInterruptQuitsTheSameWay) {
  const TerminalRun run = run_on_terminal(
      [](pid_t child, int, const std::string& output) { return is_drawn(output) && ::kill(child, SIGINT) == 0; });
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.settings_restored);
  EXPECT_TRUE(run.output.ends_with("\x1b[?25h\x1b[?1049l"));
}

// A number changes only after the screen has shown the one before it.
TEST(TopOnATerminal, ShowsWhatChangesAsLongAsItRuns) {
  LiveCache live("top-changes");
  const std::array<const char*, 3> budgets = {"1.00 MiB", "2.00 MiB", "3.00 MiB"};
  std::size_t shown = 0;
  bool rates_shown = false;
  const TerminalRun run = run_on_terminal([&](pid_t, int terminal, const std::string& output) {
    const std::string line = line_drawn_last(output, "top-changes");
    if (shown < budgets.size() && line.find(budgets[shown]) != std::string::npos) {
      ++shown;
      live.set_budget((std::min(shown, budgets.size() - 1) + 1) << 20U);
    }
    // A share of what was counted since the look before: the first screen has none.
    rates_shown = rates_shown || line.find(" 25% ") != std::string::npos;
    return shown == budgets.size() && rates_shown && ::write(terminal, "q", 1) == 1;
  });
  EXPECT_EQ(shown, budgets.size()) << run.output;
  EXPECT_TRUE(rates_shown) << run.output;
  EXPECT_EQ(run.exit_code, 0);
}

}  // namespace
}  // namespace tiermap
