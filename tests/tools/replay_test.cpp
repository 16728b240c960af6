// The replayer: misses that can be counted by hand, Belady's optimum against every choice there is, and traces as the
// command takes and refuses them.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "cache/policy/make_policy.hpp"
#include "observe/trace_recorder.hpp"
#include "replay/recorded_trace.hpp"
#include "replay/simulation.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

using nlohmann::json;
using simulation::Trace;

Trace scan(std::uint32_t pages, std::uint32_t rounds) {
  Trace trace{"scan", {}, 0};
  for (std::uint32_t step = 0; step < pages * rounds; ++step) {
    trace.touch(step % pages);
  }
  return trace;
}

/// The fewest misses of all choices that there are. The page that is touched stays.
std::uint64_t fewest_misses(const Trace& trace, std::size_t from, std::set<std::uint32_t> resident,
                            std::uint32_t capacity) {
  for (; from < trace.touches.size(); ++from) {
    const std::uint32_t page = trace.touches[from] & ~Trace::discarded_bit;
    if (page != trace.touches[from]) {
      resident.erase(page);
    } else if (!resident.contains(page)) {
      if (resident.size() < capacity) {
        resident.insert(page);
        return 1 + fewest_misses(trace, from + 1, resident, capacity);
      }
      std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
      for (const std::uint32_t victim : resident) {
        std::set<std::uint32_t> without = resident;
        without.erase(victim);
        without.insert(page);
        fewest = std::min(fewest, 1 + fewest_misses(trace, from + 1, without, capacity));
      }
      return fewest;
    }
  }
  return 0;
}

TEST(Simulation, AScanThatComesRoundHasTheMissesThatTheoryGivesIt) {
  const Trace trace = scan(100, 5);
  for (const std::string_view policy : {"fifo", "lru", "segmented-fifo"}) {
    EXPECT_EQ(simulation::run_policy(trace, policy, 50, {}, 1).misses, 500U) << policy;
  }
  EXPECT_EQ(simulation::lru_misses(trace, 50), 500U);
  EXPECT_EQ(simulation::lru_misses(trace, 100), 100U);
  EXPECT_EQ(simulation::optimal_misses(trace, 100), 100U);
  // Belady's optimum misses all of the first round; then pages - frames of each pages - 1 touches, the last of them.
  EXPECT_EQ(simulation::optimal_misses(trace, 50), 100U + 4 * 50);
  for (const std::string_view policy : policy_names()) {
    EXPECT_EQ(simulation::run_policy(trace, policy, 100, {}, 16).misses, 100U) << policy;
  }
}

TEST(Simulation, FifoForgetsWhatLruKeeps) {
  // With three frames: 0 1 2 | 0 is a hit | 3 | 0. FIFO gave 0 up for 3; LRU gave up 1.
  Trace trace{"short", {}, 0};
  for (const std::uint32_t page : {0U, 1U, 2U, 0U, 3U, 0U}) {
    trace.touch(page);
  }
  EXPECT_EQ(simulation::run_policy(trace, "fifo", 3, {}, 1).misses, 5U);
  EXPECT_EQ(simulation::lru_misses(trace, 3), 4U);
  EXPECT_EQ(simulation::optimal_misses(trace, 3), 4U);
}

TEST(Simulation, WhatIsDroppedIsNotRescued) {
  // Two pages of three in turn: LRU as the engine has it rescues what it unmaps, unless that is dropped.
  Trace trace{"turns", {}, 0};
  for (std::uint32_t turn = 0; turn < 3000; ++turn) {
    trace.touch(turn % 2 == 0 ? 0 : 1 + turn / 2 % 40);
  }
  const simulation::Outcome kept = simulation::run_policy(trace, "lru", 20, {}, 1);
  const simulation::Outcome dropped = simulation::run_policy(trace, "lru", 20, {}, 1, {.all = false, .one_in = 1000});
  EXPECT_GT(kept.rescues, 100U);
  EXPECT_LT(dropped.rescues, 10U);
  EXPECT_GT(dropped.misses, kept.misses);
}

TEST(Simulation, WhatIsDiscardedHasToBeReadAgainAndMakesRoom) {
  Trace trace = scan(4, 1);
  trace.discard(0);
  trace.discard(1);
  trace.touch(4);
  trace.touch(5);
  trace.touch(2);
  trace.touch(3);
  trace.discard(3);
  trace.touch(3);
  EXPECT_EQ(trace.accesses(), 9U);
  for (const std::string_view policy : policy_names()) {
    EXPECT_EQ(simulation::run_policy(trace, policy, 4, {}, 1).misses, 7U) << policy;
  }
  EXPECT_EQ(simulation::lru_misses(trace, 4), 7U);
  EXPECT_EQ(simulation::optimal_misses(trace, 4), 7U);
}

TEST(Simulation, NoChoiceHasFewerMissesThanBeladysOptimum) {
  const std::uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 300; ++round) {
    Trace trace{"random", {}, 0};
    const std::uint64_t pages = 3 + random() % 3;
    while (trace.touches.size() < 11) {
      const auto page = static_cast<std::uint32_t>(random() % pages);
      if (random() % 8 == 0 && page < trace.pages) {
        trace.discard(page);
      } else {
        trace.touch(page);
      }
    }
    const auto capacity = static_cast<std::uint32_t>(2 + random() % 2);
    const std::uint64_t optimum = simulation::optimal_misses(trace, capacity);
    ASSERT_EQ(optimum, fewest_misses(trace, 0, {}, capacity));
    EXPECT_LE(optimum, simulation::lru_misses(trace, capacity));
    for (const std::string_view policy : policy_names()) {
      EXPECT_LE(optimum, simulation::run_policy(trace, policy, capacity, {}, 1).misses) << policy;
    }
  }
}

class Replay : public ::testing::Test {
 protected:
  /// Scans of `pages` pages as a recorder would have them with no memory to speak of, and a region that is only read
  /// ahead.
  void record(const std::string& path, std::uint64_t pages, std::uint64_t rounds, std::uint64_t page_bytes = 65536) {
    TraceRecorder recorder(path, 4 * page_bytes, "cyclic");
    recorder.begin_region(1, 1 << 20, 1 << 20, "memory:1");
    recorder.record({TraceKind::read_ahead, false, 1, 0});
    recorder.begin_region(2, page_bytes, pages * page_bytes, "file:data");
    for (std::uint64_t step = 0; step < pages * rounds; ++step) {
      const std::uint64_t page = step % pages;
      recorder.record({TraceKind::fill, page % 2 == 1, 2, page});
      recorder.record({TraceKind::first_write, true, 2, page});
      recorder.record({TraceKind::evicted, false, 2, page});
    }
  }
  static json report_of(const CommandResult& result) {
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return json::parse(result.output).at("traces");
  }
  static void expect_refusal(const std::vector<std::string>& arguments, const std::string& message) {
    const CommandResult result = run_tiermap(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_NE(result.errors.find(message), std::string::npos) << result.errors;
    EXPECT_EQ(result.output, "");
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_ / "run.trace";
};

TEST_F(Replay, TellsTheMissesOfEachPolicyAtEachBudget) {
  record(path_, 100, 5);
  const CommandResult result = run_tiermap({"replay", path_, "--budget", "50%,6400KiB", "--json"});
  EXPECT_EQ(result.errors, "");
  const json report = report_of(result).at(0);
  EXPECT_EQ(report.at("accesses"), 500);
  EXPECT_EQ(report.at("recorded_accesses"), 1000);
  EXPECT_EQ(report.at("pages"), 100);
  EXPECT_EQ(report.at("regions"), 1);
  EXPECT_EQ(report.at("page_bytes"), 65536);
  EXPECT_EQ(report.at("recorded_policy"), "cyclic");
  const json& half = report.at("budgets").at(0);
  EXPECT_EQ(half.at("pages"), 50);
  EXPECT_EQ(half.at("misses").at("lru"), 500);
  EXPECT_EQ(half.at("misses").at("optimum"), 100 + 4 * 50);
  for (const std::string_view policy : policy_names()) {
    EXPECT_EQ(report.at("budgets").at(1).at("misses").at(policy), 100) << policy;
  }
  const CommandResult table = run_tiermap({"replay", path_, "--budget", "50%", "--policies", "fifo"});
  EXPECT_NE(
      table.output.find("500 accesses to 100 pages of 64KiB (6.25 MiB) in 1 region; recorded with 256 KiB, cyclic"),
      std::string::npos)
      << table.output;
  EXPECT_NE(table.output.find("   100.00"), std::string::npos) << table.output;
}

TEST_F(Replay, LargerPagesTakeInWhatSmallerOnesWere) {
  record(path_, 100, 5);
  const json report = report_of(run_tiermap({"replay", path_, "--page-size", "256KiB", "--json"})).at(0);
  EXPECT_EQ(report.at("accesses"), 125);
  EXPECT_EQ(report.at("pages"), 25);
  expect_refusal({"replay", path_, "--page-size", "4KiB"}, "page size 4KiB is under the 64KiB of ");
  expect_refusal({"replay", path_, "--page-size", "100KiB"}, "is not a power of two");
}

TEST_F(Replay, BytesInPagesOfSeveralSizesAreOneRegion) {
  {
    TraceRecorder recorder(path_, 1 << 20, "cyclic");
    recorder.begin_region(4, 65536, 1 << 20, "file:data");
    recorder.begin_region(5, 4096, 1 << 20, "file:data", true);
    recorder.begin_region(6, 1 << 20, 1 << 20, "file:data", true);
    recorder.begin_region(7, 4096, 1 << 20, "file:data");  // The same file once more, which nobody takes for one.
    recorder.record({TraceKind::read_ahead, false, 6, 0});
    recorder.record({TraceKind::discarded, false, 6, 0});
    recorder.record({TraceKind::fill, false, 4, 0});
    recorder.record({TraceKind::evicted, false, 4, 0});
    recorder.record({TraceKind::fill, true, 5, 15});
    recorder.record({TraceKind::fill, false, 5, 16});
    recorder.record({TraceKind::fill, false, 4, 0});
    recorder.record({TraceKind::fill, false, 7, 0});
  }
  const json report = report_of(run_tiermap({"replay", path_, "--budget", "1MiB", "--json"})).at(0);
  EXPECT_EQ(report.at("recorded_accesses"), 5);
  EXPECT_EQ(report.at("accesses"), 4);
  EXPECT_EQ(report.at("regions"), 2);
  EXPECT_EQ(report.at("pages"), 3);
  EXPECT_EQ(report.at("page_bytes"), 65536);
  EXPECT_EQ(report.at("budgets").at(0).at("misses").at("optimum"), 3);
  EXPECT_EQ(run_tiermap({"replay", path_, "--accesses"}).output,
            "# tiermap-random-io --pattern trace --trace THIS --block 64KiB --bytes 192KiB\n"
            "r 0\nw 0\nr 1\nr 0\nr 2\n");
}

TEST_F(Replay, PrintsTheAccessesAsRandomIoReadsThem) {
  record(path_, 3, 1, 4096);
  const CommandResult result = run_tiermap({"replay", path_, "--accesses"});
  EXPECT_EQ(result.output,
            "# tiermap-random-io --pattern trace --trace THIS --block 4KiB --bytes 12KiB\n"
            "r 0\nw 0\nw 1\nw 1\nr 2\nw 2\n");
}

TEST_F(Replay, WhatIsMissingIsTold) {
  record(path_, 3, 1);
  const std::string whole = read_file(path_);
  write_file(directory_ / "killed.trace", whole.substr(0, whole.size() - 8));
  const CommandResult killed = run_tiermap({"replay", directory_ / "killed.trace", "--budget", "1MiB"});
  EXPECT_EQ(killed.exit_code, 0);
  EXPECT_TRUE(is_one_line(killed.errors) && killed.errors.find(" has no end: ") != std::string::npos) << killed.errors;
  const std::uint64_t lost = TraceRecord{TraceKind::lost, false, 0, 7}.word();
  const std::string with_loss = whole.substr(0, whole.size() - 8) +
                                std::string(reinterpret_cast<const char*>(&lost), sizeof lost) +
                                whole.substr(whole.size() - 8);
  write_file(directory_ / "lossy.trace", with_loss);
  const CommandResult lossy = run_tiermap({"replay", directory_ / "lossy.trace", "--budget", "1MiB"});
  EXPECT_NE(lossy.errors.find(": 7 records are missing"), std::string::npos) << lossy.errors;
}

TEST_F(Replay, WhatCannotBeReplayedIsRefusedInOneLine) {
  record(path_, 3, 1);
  const std::string whole = read_file(path_);
  write_file(directory_ / "cut.trace", whole.substr(0, whole.size() - 3));
  expect_refusal({"replay", directory_ / "cut.trace"}, "cut off in the middle of a record");
  write_file(directory_ / "text.trace", "r 1\n");
  expect_refusal({"replay", directory_ / "text.trace"}, "is no trace");
  expect_refusal({"replay", directory_ / "none.trace"}, "cannot be opened");
  expect_refusal({"replay", directory_.path()}, "is no plain file");
  // Nobody writes into it: who opened it would wait.
  ASSERT_EQ(::mkfifo((directory_ / "pipe").c_str(), 0600), 0);
  expect_refusal({"replay", directory_ / "pipe"}, "is no plain file");
  expect_refusal({"replay", "--accesses", directory_ / "pipe"}, "is no plain file");
  write_file(directory_ / "empty.trace", whole.substr(0, sizeof(TraceHeader)));
  expect_refusal({"replay", directory_ / "empty.trace"}, "holds no access");
  expect_refusal({"replay", path_, "--policies", "best"}, "policy \"best\" is unknown");
  expect_refusal({"replay", path_, "--budget", "4KiB"}, "under two pages of 64KiB");
  expect_refusal({"replay", path_, "--budget", "ten"}, "budget 'ten'");
  expect_refusal({"replay", path_, "--accesses", "--json"}, "leave out one of them");
  expect_refusal({"replay"}, "TRACE is required");
}

TEST_F(Replay, ATraceOfTheEngineHasTheMissesThatTheEngineHad) {
  constexpr std::uint64_t pages = 200;
  constexpr std::uint64_t page_bytes = 65536;
  CacheOptions options;
  options.budget_bytes = 4 << 20;
  options.trace_file = path_;
  options.publish_statistics = false;
  options.fault_mode = FaultMode::notify;
  Statistics statistics;
  {
    Cache cache(options);
    RegionOptions region_options;
    region_options.length = pages * page_bytes;
    region_options.page_size_bytes = page_bytes;
    region_options.read_ahead_bytes = 0;
    const Region region = cache.map("memory:" + std::to_string(pages * page_bytes), region_options);
    for (std::uint64_t step = 0; step < 4 * pages; ++step) {
      static_cast<void>(*static_cast<const volatile std::byte*>(region.data() + step % pages * page_bytes));
    }
    statistics = cache.statistics();
  }
  // Each access misses with so little memory: the trace holds all, and a cache of all pages misses each once.
  const json report = report_of(run_tiermap({"replay", path_, "--budget", "4MiB,100%", "--json"})).at(0);
  EXPECT_EQ(report.at("recorded_accesses"), statistics[Counter::fills] + statistics[Counter::rescues]);
  EXPECT_EQ(report.at("pages"), pages);
  EXPECT_EQ(report.at("budgets").at(1).at("misses").at("cyclic"), pages);
}

}  // namespace
}  // namespace tiermap
