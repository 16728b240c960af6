// What is asked of a memory system reaches it: advice the kernel's mapping; policy, fault mode and read-ahead the
// cache.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "apps/program_fixture.hpp"
#include "command_line/backing.hpp"
#include "command_line/memory_system.hpp"
#include "observe/publication.hpp"
#include "platform/memory_limits.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap::test {
namespace {

class SystemOptionsTest : public ProgramTest {
 protected:
  /// A sort of three times its budget, to its end.
  nlohmann::json sort(std::vector<std::string> arguments) const {
    const std::vector<std::string> rest = {"--bytes", "6MiB",      "--budget", "2MiB",  "--page-size",
                                           "64KiB",   "--threads", "2",        "--json"};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    const Outcome outcome = run("tiermap-sort", arguments);
    EXPECT_EQ(outcome.exit_code, 0) << testing::PrintToString(arguments) << outcome.errors;
    return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
  }
};

/// The flags that the kernel keeps for the mapping at an address, with a blank before and after each.
std::string kernel_flags_at(const void* address) {
  std::ifstream file("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto wanted = reinterpret_cast<std::uintptr_t>(address);
      found = begin <= wanted && wanted < end;
    } else if (found && line.starts_with("VmFlags:")) {
      return line.substr(8) + " ";
    }
  }
  return {};
}

TEST_F(SystemOptionsTest, AdviceReachesTheKernelsMapping) {
  Backing backing = Backing::create(path("work/mapped"), 1 << 20);
  for (const auto& [advice, sequential, random] :
       {std::tuple(Advice::normal, false, false), {Advice::sequential, true, false}, {Advice::random, false, true}}) {
    for (const auto& [system, mode] :
         {std::pair(System::mmap, FaultMode::automatic), {System::tiermap, FaultMode::kernel}}) {
      WorkloadOptions options;
      options.system = system;
      options.fault_mode = mode;
      options.advice = advice;
      options.budget_bytes = 16 << 20;
      const std::unique_ptr<MemorySystem> made = MemorySystem::make(options);
      const std::unique_ptr<MappedBytes> mapped = made->map(backing, Access::read_write);
      const std::string flags = kernel_flags_at(mapped->data());
      if (flags.empty()) {
        GTEST_SKIP() << "/proc/self/smaps tells no flags here";
      }
      EXPECT_EQ(flags.find(" sr ") != std::string::npos, sequential) << flags;
      EXPECT_EQ(flags.find(" rr ") != std::string::npos, random) << flags;
    }
  }
}

// What no memory holds ended by the kernel's killing the program, and what it had made until then stayed.
TEST_F(SystemOptionsTest, MoreThanMemoryHoldsIsRefusedBeforeItIsMade) {
  constexpr std::uint64_t page = 4096;
  const std::uint64_t bytes = read_machine_memory().usable_bytes() / page * page * 4;
  for (const char* program : {"tiermap-sort", "tiermap-search", "tiermap-random-io"}) {
    expect_refused(program, {"--system", "memory", "--bytes", std::to_string(bytes)}, "does not fit into");
  }
  // A file that was made elsewhere, and has a long hole at its end.
  const std::string table = path("work/table");
  const std::string kmers = path("work/kmers");
  ASSERT_EQ(run("tiermap-search", {"--bytes", "1MiB", "--file", table, "--keep"}).exit_code, 0);
  ASSERT_EQ(run("tiermap-kmer", {"--bytes", "1MiB", "--database", kmers, "--build-only"}).exit_code, 0);
  for (const std::string& file : {table, kmers}) {
    std::filesystem::resize_file(file, bytes);
  }
  expect_refused("tiermap-search", {"--system", "memory", "--in", table}, "does not fit into", 2);
  const std::string words = write_file("words", "ACGTACGTACGTACGTAC\n");
  expect_refused("tiermap-kmer", {"--system", "memory", "--database", kmers, "--work", "lookup", "--kmers", words},
                 "does not fit into", 2);
  expect_refused("tiermap-sort", {"--system", "memory", "--in-place", "--file", table}, "does not fit into", 2);
}

TEST_F(SystemOptionsTest, TheReportHasTheAdviceAsAsked) {
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    for (const char* advice : {"normal", "random", "sequential"}) {
      const nlohmann::json report = sort({"--system", system, "--madvise", advice, "--prefetch", "off"});
      EXPECT_EQ(report.value("madvise", ""), advice) << system;
      EXPECT_EQ(report.value("prefetch", true), false);
      EXPECT_EQ(report.value("verified", false), true);
    }
  }
}

TEST_F(SystemOptionsTest, AdviceAndReadAheadDecideWhatIsReadAhead) {
  // Nothing is said in advance: what is prefetched was read ahead.
  const auto read_ahead = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--prefetch", "off"});
    return sort(arguments)["counters"].value("prefetched_pages", std::uint64_t{0});
  };
  for (const char* mode : {"notify", "self-serving"}) {
    if (run("tiermap-sort", {"--fault-mode", mode, "--bytes", "8"}).exit_code == 2) {
      GTEST_SKIP() << "fault mode " << mode << " is refused here";
    }
    EXPECT_GT(read_ahead({"--fault-mode", mode}), 0U) << mode;
    EXPECT_EQ(read_ahead({"--fault-mode", mode, "--madvise", "random"}), 0U) << mode;
    EXPECT_EQ(read_ahead({"--fault-mode", mode, "--read-ahead", "0"}), 0U) << mode;
    EXPECT_GT(read_ahead({"--fault-mode", mode, "--read-ahead", "128KiB"}), 0U) << mode;
  }
}

TEST_F(SystemOptionsTest, EveryPolicySortsAndIsTheCachesOwn) {
  for (const std::string policy : {"fifo", "lru", "hot-fifo", "segmented-fifo", "small-main", "cyclic"}) {
    EXPECT_EQ(sort({"--policy", policy}).value("verified", false), true) << policy;
    // While it runs, as `tiermap top` would see it.
    const pid_t child = start("tiermap-sort", {"--policy", policy, "--bytes", "2GiB", "--budget", "64MiB"});
    std::string seen;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (seen.empty() && std::chrono::steady_clock::now() < deadline) {
      for (const ObservedCache& cache : observe_caches()) {
        seen = cache.process == child ? cache.policy : seen;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_EQ(seen, policy);
    EXPECT_EQ(::kill(child, SIGTERM), 0);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
  }
}

TEST_F(SystemOptionsTest, SearchesInEveryFaultMode) {
  nlohmann::json levels;
  for (const std::string mode : {"auto", "notify", "self-serving", "kernel"}) {
    const Outcome outcome = run("tiermap-bfs", {"--fault-mode", mode, "--scale", "14", "--budget", "4MiB",
                                                "--page-size", "64KiB", "--roots", "2", "--json"});
    if (outcome.exit_code == 2) {
      // Refused by the machine, by name.
      EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
      EXPECT_NE(mode, "auto");
      continue;
    }
    ASSERT_EQ(outcome.exit_code, 0) << mode << outcome.errors;
    EXPECT_EQ(outcome.json().at("verified"), true) << mode;
    const auto engine = outcome.json().at("engine").get<std::string>();
    EXPECT_TRUE(mode == "auto" || engine.find(mode) != std::string::npos) << mode << ": " << engine;
    EXPECT_TRUE(levels.is_null() || levels == outcome.json().at("levels")) << mode;
    levels = outcome.json().at("levels");
  }
}

}  // namespace
}  // namespace tiermap::test
