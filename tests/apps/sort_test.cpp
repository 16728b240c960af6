// tiermap-sort from outside: every system, order and thread count gives a verified result; bad input is refused with
// one line and leaves nothing behind.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-sort";

struct Case {
  std::string system;
  std::string order;

  friend void PrintTo(const Case& value, std::ostream* output) { *output << value.system << ' ' << value.order; }
};

class SortTest : public ProgramTest {};
class SortSystemTest : public ProgramTest, public testing::WithParamInterface<Case> {};

std::vector<std::uint64_t> read_words(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  std::vector<std::uint64_t> words(static_cast<std::size_t>(file.tellg()) / 8);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(words.size() * 8));
  return words;
}

void write_words(const std::string& path, const std::vector<std::uint64_t>& words) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 8));
}

TEST_P(SortSystemTest, SortsMoreThanItsBudget) {
  for (const char* threads : {"1", "2", "8"}) {
    const Outcome outcome =
        run(program, {"--system", GetParam().system, "--order", GetParam().order, "--bytes", "24MiB", "--budget",
                      "8MiB", "--page-size", "64KiB", "--threads", threads, "--json"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    const nlohmann::json report = outcome.json();
    expect_shared_fields(report, "sort", GetParam().system);
    EXPECT_EQ(report.at("verified"), true);
    EXPECT_EQ(report.at("operations"), 24U << 17U);
    EXPECT_EQ(report.at("bytes"), 24U << 20U);
    EXPECT_EQ(report.at("budget_bytes"), 8U << 20U);
    EXPECT_EQ(report.at("order"), GetParam().order);
    EXPECT_EQ(std::to_string(report.at("threads").get<int>()), threads);
    EXPECT_TRUE(left_behind().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SortSystemTest,
                         testing::Values(Case{"tiermap", "uniform"}, Case{"tiermap", "ascending"},
                                         Case{"tiermap", "descending"}, Case{"tiermap", "few-distinct"},
                                         Case{"mmap", "uniform"}, Case{"mmap", "ascending"}, Case{"mmap", "descending"},
                                         Case{"mmap", "few-distinct"}, Case{"memory", "uniform"},
                                         Case{"memory", "ascending"}, Case{"memory", "descending"},
                                         Case{"memory", "few-distinct"}),
                         [](const testing::TestParamInfo<Case>& parameter) {
                           std::string name = parameter.param.system + "_" + parameter.param.order;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(SortTest, KeepsTheFileWhenAsked) {
  std::vector<std::uint64_t> first;
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    const std::string file = path("work/" + system);
    const Outcome outcome = run(
        program, {"--system", system, "--file", file, "--bytes", "3MiB", "--budget", "16MiB", "--seed", "7", "--keep"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    const std::vector<std::uint64_t> words = read_words(file);
    EXPECT_EQ(words.size(), 3U << 17U);
    EXPECT_TRUE(std::is_sorted(words.begin(), words.end()));
    // The same seed gives the same words, whatever sorts them.
    EXPECT_TRUE(first.empty() || first == words);
    first = words;
  }
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"memory", "mmap", "tiermap"}));
}

TEST_F(SortTest, WhatIsMadeInsideAFileOrBehindTiersGoesToo) {
  const std::string tiers =
      write_file("tiers", "block: 64KiB\ntiers:\n  - name: dram\n    kind: memory\n    capacity: 1MiB\n");
  const std::string words = "hdf5:" + path("work/words.h5") + ":/words?type=int64";
  for (const std::string& url : {words, "tiered:" + tiers + "?store=" + path("work/behind")}) {
    const std::vector<std::string> arguments = {"--file", url, "--bytes", "1MiB", "--budget", "4MiB"};
    const Outcome outcome = run(program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_TRUE(left_behind().empty()) << url;
  }
  EXPECT_EQ(run(program, {"--file", words, "--bytes", "1MiB", "--budget", "4MiB", "--keep"}).exit_code, 0);
  // What is there already is not the sort's alone.
  const std::string others = "hdf5:" + path("work/words.h5") + ":/others?type=int64";
  EXPECT_EQ(run(program, {"--file", others, "--bytes", "1MiB", "--budget", "4MiB"}).exit_code, 0);
  EXPECT_EQ(left_behind(), std::vector<std::string>{"words.h5"});
}

TEST_F(SortTest, SortsWhatIsThereInPlace) {
  const std::vector<std::uint64_t> words = {5, 3, ~std::uint64_t{0}, 0, 3};
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    const std::string file = path("work/input");
    write_words(file, words);
    const Outcome outcome = run(program, {"--system", system, "--file", file, "--in-place", "--budget", "16MiB"});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(read_words(file), (std::vector<std::uint64_t>{0, 3, 3, 5, ~std::uint64_t{0}})) << system;
  }
}

TEST_F(SortTest, SortsOddSizes) {
  for (const char* bytes : {"8", "16", "4096", "4104", "1048584", "3000000"}) {
    for (const char* system : {"tiermap", "mmap", "memory"}) {
      const Outcome outcome =
          run(program, {"--system", system, "--bytes", bytes, "--budget", "16MiB", "--threads", "4", "--json"});
      ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
      EXPECT_EQ(outcome.json().at("verified"), true);
    }
  }
}

TEST_F(SortTest, SortsInEveryEngineAndPlainStore) {
  for (const char* mode : {"auto", "notify", "self-serving", "kernel"}) {
    const Outcome outcome =
        run(program, {"--fault-mode", mode, "--bytes", "8MiB", "--budget", "4MiB", "--page-size", "64KiB", "--json"});
    if (outcome.exit_code == 2) {
      // Refused by the machine, by name.
      EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
      EXPECT_NE(std::string(mode), "auto");
      continue;
    }
    ASSERT_EQ(outcome.exit_code, 0) << mode << outcome.errors;
    EXPECT_EQ(outcome.json().at("verified"), true);
  }
  const std::string sparse = "sparse://" + path("work/sparse") + "?segment=1MiB";
  const Outcome outcome = run(program, {"--file", sparse, "--bytes", "8MiB", "--budget", "4MiB", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), true);
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(SortTest, SaysWhenNothingWasChecked) {
  const Outcome outcome = run(program, {"--system", "mmap", "--bytes", "1MiB", "--no-verify", "--json"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.json().at("verified").is_null());
}

TEST_F(SortTest, RefusesBadInput) {
  expect_refused(program, {"--bytes", "0"}, "size 0");
  expect_refused(program, {"--file", "memory:64MiB", "--bytes", "1MiB"}, "leave one of them out");
  expect_refused(program, {"--bytes", "13"}, "choose for example 8");
  expect_refused(program, {"--bytes", "10XB"}, "10XB");
  expect_refused(program, {"--bytes", "64PiB"}, "have less made");
  expect_refused(program, {"--page-size", "5000"}, "page size 5000");
  expect_refused(program, {"--page-size", "128MiB"}, "64MiB");
  expect_refused(program, {"--threads", "0"}, "threads 0");
  expect_refused(program, {"--threads", "two"}, "threads two");
  expect_refused(program, {"--system", "swap"}, "tiermap, mmap, memory");
  expect_refused(program, {"--madvise", "twice"}, "normal, random, sequential");
  expect_refused(program, {"--fault-mode", "psychic"}, "self-serving");
  expect_refused(program, {"--order", "alphabetical"}, "few-distinct");
  expect_refused(program, {"--budget", "0"}, "budget");
  for (const char* system : {"tiermap", "mmap", "memory"}) {
    expect_refused(program, {"--system", system, "--budget", "8", "--bytes", "1MiB"},
                   "budget 8 is under a page of 4KiB: choose 20KiB or more");
  }
  expect_refused(program, {"--prefetch", "maybe"}, "on, off");
  expect_refused(program, {"--no-such-option"}, "--help");
  expect_refused(program, {"--in-place"}, "--file");
  expect_refused(program, {"--in-place", "--file", path("missing")}, "missing");
  expect_refused(program, {"--in-place", "--file", path("missing"), "--order", "descending"}, "--order");
  expect_refused(program, {"--in-place", "--file", path("work")}, "work");
  expect_refused(program, {"--file", path("missing/words"), "--bytes", "8"}, "missing");
  expect_refused(program, {"--system", "mmap", "--file", "sparse://" + path("work/s"), "--bytes", "1MiB"},
                 "--system tiermap");
}

TEST_F(SortTest, RefusesWhatTheCacheRefuses) {
  expect_refused(program, {"--policy", "guess", "--bytes", "1MiB"}, "guess");
  expect_refused(program, {"--budget", "4KiB", "--bytes", "1MiB"}, "choose 20KiB");
}

// What is generated would not fit on any disk: only what is refused before that gives these messages.
TEST_F(SortTest, RefusesBadOptionsBeforeGenerating) {
  const auto refuse = [&](std::vector<std::string> arguments, const std::string& part) {
    arguments.insert(arguments.end(), {"--bytes", "64PiB"});
    expect_refused(program, arguments, part);
  };
  refuse({"--read-ahead", "2GiB"}, "read ahead");
  refuse({"--budget", "64KiB", "--page-size", "64KiB"}, "budget of 64KiB cannot serve");
  const std::string sparse = "sparse://" + path("work/sparse");
  refuse({"--system", "mmap", "--file", sparse}, "--system tiermap");
  refuse({"--fault-mode", "kernel", "--file", sparse}, "one plain file");
  refuse({"--fault-mode", "kernel", "--read-ahead", "2GiB"}, "read ahead");
  set_environment("TIERMAP_READ_AHEAD", "2GiB");
  refuse({}, "TIERMAP_READ_AHEAD");
  set_environment("TIERMAP_READ_AHEAD", "4MiB");
  set_environment("TIERMAP_PAGE_SIZE", "5000");
  refuse({}, "TIERMAP_PAGE_SIZE");
}

TEST_F(SortTest, RefusesSeedsThatAreNoWholeNumber) {
  for (const char* seed : {"-1", "99999999999999999999999", "1.5", "x"}) {
    expect_refused(program, {"--bytes", "1MiB", "--seed", seed},
                   std::string("seed ") + seed + " is not a whole number");
  }
  const Outcome outcome = run(program, {"--system", "mmap", "--bytes", "1MiB", "--budget", "16MiB", "--seed",
                                        "18446744073709551615", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.json().at("seed"), ~std::uint64_t{0});
}

TEST_F(SortTest, ChoosesAPageSizeThatSuitsTheBudget) {
  const auto page_size = [&](std::vector<std::string> arguments) -> std::uint64_t {
    arguments.insert(arguments.end(), {"--bytes", "1MiB", "--json"});
    const Outcome outcome = run(program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    return outcome.exit_code == 0 ? outcome.json().at("page_size").get<std::uint64_t>() >> 10U : 0;
  };
  EXPECT_EQ(page_size({"--budget", "64MiB"}), 2048U);
  EXPECT_EQ(page_size({"--budget", "48MiB"}), 1024U);
  EXPECT_EQ(page_size({"--budget", "64MiB", "--threads", "64"}), 512U);
  set_environment("TIERMAP_BUFFER_SIZE", "48MiB");
  EXPECT_EQ(page_size({}), 1024U);
  EXPECT_EQ(page_size({"--budget", "64MiB"}), 2048U);
  set_environment("TIERMAP_BUFFER_SIZE", "8MiB");
  EXPECT_EQ(page_size({}), 256U);
  set_environment("TIERMAP_CONFIG", write_file("budget.yaml", "buffer_size: 16MiB\n"));
  EXPECT_EQ(page_size({}), 256U);  // The environment wins over the file.
  EXPECT_EQ(page_size({"--budget", "64MiB"}), 2048U);
  set_environment("TIERMAP_CONFIG", write_file("page.yaml", "page_size: 128KiB\n"));
  EXPECT_EQ(page_size({"--budget", "64MiB"}), 128U);
  set_environment("TIERMAP_PAGE_SIZE", "32KiB");
  EXPECT_EQ(page_size({"--budget", "64MiB"}), 32U);
  EXPECT_EQ(page_size({"--budget", "64MiB", "--page-size", "512KiB"}), 512U);
}

TEST_F(SortTest, NamesSizesReadably) {
  const Outcome outcome = run(program, {"--bytes", "72057594037927944"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.errors.find("not for 64.0 PiB:"), std::string::npos) << outcome.errors;
}

TEST_F(SortTest, NeverTouchesAFileThatIsThere) {
  const std::string file = write_file("work/precious", "precious words, 3");
  expect_refused(program, {"--system", "mmap", "--file", file, "--bytes", "16"}, "exists", 1);
  expect_refused(program, {"--system", "mmap", "--file", file, "--in-place"}, "multiple of 8", 1);
  std::ifstream stream(file);
  std::string text;
  std::getline(stream, text);
  EXPECT_EQ(text, "precious words, 3");
}

TEST_F(SortTest, SaysWhatToDoAboutNamesThatCannotBe) {
  expect_refused("tiermap-sort", {"--bytes", "1MiB", "--file", path(std::string(300, 'x'))},
                 "cannot be looked at: File name too long: choose a shorter name");
  const std::string circle = path("work/circle");
  std::filesystem::create_directories(path("work"));
  std::filesystem::create_symlink(circle, circle);
  expect_refused("tiermap-sort", {"--bytes", "1MiB", "--file", circle},
                 "cannot be looked at: Too many levels of symbolic links: its links lead round in a circle", 1);
}

TEST_F(SortTest, WhatIsKilledLeavesNoUnsortedFileUnderItsName) {
  const std::string file = path("work/words");
  const std::vector<std::string> arguments = {"--bytes", "256MiB", "--budget", "8MiB", "--file", file, "--keep"};
  const pid_t child = start(program, arguments);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGKILL);
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"words.partial"}));
  expect_refused(program, arguments, "words.partial is there: a run that was killed has left it", 1);
}

// What is sorted in place was there before: whoever ends the program finds every word, in some order.
TEST_F(SortTest, AnInterruptedSortInPlaceLeavesAllWords) {
  const auto seed = static_cast<std::uint64_t>(::getpid());
  std::mt19937_64 random(seed);
  std::vector<std::uint64_t> words(2U << 20U);
  std::generate(words.begin(), words.end(), [&] { return random(); });
  std::vector<std::uint64_t> in_order = words;
  std::sort(in_order.begin(), in_order.end());
  const std::string file = path("work/words");
  for (const auto& [system, signal] :
       {std::pair("tiermap", SIGINT), std::pair("mmap", SIGTERM), std::pair("memory", SIGHUP)}) {
    write_words(file, words);
    const auto made = std::filesystem::last_write_time(file);
    const pid_t child = start(program, {"--system", system, "--file", file, "--in-place", "--budget", "4MiB",
                                        "--page-size", "64KiB", "--threads", "2", "--no-verify"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::filesystem::last_write_time(file) == made && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 50));
    EXPECT_EQ(::kill(child, signal), 0);
    const Outcome outcome = outcome_of(child);
    // It may have been done before the signal came.
    EXPECT_TRUE(outcome.exit_code == 128 + signal || outcome.exit_code == 0) << outcome.exit_code << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    std::vector<std::uint64_t> left = read_words(file);
    std::sort(left.begin(), left.end());
    EXPECT_TRUE(left == in_order) << system << " signal " << signal << " seed " << seed;
  }
}

TEST_F(SortTest, SaysThatNotSoManyThreadsCanBeStarted) {
  const std::string refusal = ::geteuid() == 0 ? start_without_privileges() : "only root can run it as another user";
  if (!refusal.empty()) {
    GTEST_SKIP() << refusal;
  }
  const Outcome outcome = run("/usr/bin/prlimit", {"--nproc=40", std::string(TIERMAP_BINARY_FOLDER) + "/" + program,
                                                   "--system", "mmap", "--bytes", "1MiB", "--threads", "200"});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("of 200 threads can be started"), std::string::npos) << outcome.errors;
  EXPECT_TRUE(left_behind().empty());
}

TEST_F(SortTest, GoesOnWhereTheEndOfTheTerminalIsIgnored) {
  const pid_t child = start("/usr/bin/env", {"--ignore-signal=HUP", std::string(TIERMAP_BINARY_FOLDER) + "/" + program,
                                             "--system", "mmap", "--bytes", "2GiB", "--budget", "64MiB"});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(::kill(child, SIGHUP), 0);
  EXPECT_EQ(::kill(child, SIGTERM), 0);
  EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM);
}

TEST_F(SortTest, RemovesItsFileWhenInterrupted) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const pid_t child = start(program, {"--system", "mmap", "--bytes", "2GiB", "--budget", "64MiB"});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (left_behind().empty() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_FALSE(left_behind().empty());
    ASSERT_EQ(::kill(child, signal), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 128 + signal);
    EXPECT_TRUE(left_behind().empty());
  }
}

TEST_F(SortTest, HelpIsNoError) {
  const Outcome outcome = run(program, {"--help"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.output.find("--page-size"), std::string::npos);
  EXPECT_EQ(run(program, {"--version"}).exit_code, 0);
}

}  // namespace
}  // namespace tiermap::test
