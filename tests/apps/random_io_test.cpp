// tiermap-random-io from outside, on every system, and the parts that it is made of.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "apps/program_fixture.hpp"
#include "parallel/latency_counts.hpp"
#include "random-io/access_sequence.hpp"
#include "random-io/process_group.hpp"
#include "random-io/test_file.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-random-io";

std::vector<std::string> arguments(const std::vector<std::string>& further) {
  std::vector<std::string> all = {"--bytes", "8MiB", "--budget", "4MiB", "--threads", "3", "--json"};
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

struct RandomIoTest : public ProgramTest {
  nlohmann::json verified_run(const std::vector<std::string>& further) {
    const Outcome outcome = run(program, arguments(further));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    EXPECT_TRUE(left_behind().empty());
    const nlohmann::json report = outcome.json();
    EXPECT_EQ(report.at("verified"), true);
    EXPECT_GT(report.at("accesses_per_second").get<double>(), 0);
    EXPECT_LE(report.at("latency_microseconds").at("p50"), report.at("latency_microseconds").at("max"));
    return report;
  }
};

TEST_F(RandomIoTest, EverySystemReadsAndWrites) {
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    for (const std::string access : {"read", "write", "mixed"}) {
      const nlohmann::json report = verified_run({"--system", system, "--access", access});
      expect_shared_fields(report, "random-io", system);
      EXPECT_EQ(report.at("operations"), 2048);
    }
  }
}

TEST_F(RandomIoTest, DirectInputAndOutputIsCheckedLikeTheRest) {
  const nlohmann::json report = verified_run({"--direct", "--access", "mixed", "--pattern", "zipfian"});
  EXPECT_EQ(report.at("system"), "direct");
  // Of processes too, whatever --system is named.
  verified_run({"--direct", "--access", "write", "--processes", "2", "--system", "memory"});
}

TEST_F(RandomIoTest, SeveralProcessesShareTheBlocksAndTheBudget) {
  for (const std::string pattern : {"uniform", "zipfian"}) {
    const nlohmann::json report =
        verified_run({"--processes", "3", "--access", "write", "--pattern", pattern, "--page-size", "16KiB"});
    EXPECT_EQ(report.at("processes"), 3);
    EXPECT_EQ(report.at("operations"), 2048);
    EXPECT_EQ(report.at("budget_bytes"), 4U << 20U);
    EXPECT_GT(report.at("counters").at("fills"), 0);
  }
}

TEST_F(RandomIoTest, ProcessesAreWaitedForWhereTheirEndIsIgnored) {
  longest_run_seconds = 60;
  std::vector<std::string> words = arguments({"--processes", "2"});
  words.insert(words.begin(), {"--ignore-signal=CHLD", std::string(TIERMAP_BINARY_FOLDER) + "/" + program});
  const Outcome outcome = run("/usr/bin/env", words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
}

TEST_F(RandomIoTest, ATraceIsReplayed) {
  const std::string trace = write_file("trace", "# two reads, three writes\r\nr 0\nw 7\r\nw 7\rr 2047\n\nw 9\n");
  for (const std::string system : {"tiermap", "mmap"}) {
    for (const std::string processes : {"1", "2"}) {
      const nlohmann::json report =
          verified_run({"--system", system, "--pattern", "trace", "--trace", trace, "--processes", processes});
      EXPECT_EQ(report.at("operations"), 5);
      EXPECT_EQ(report.at("access"), "mixed");
      EXPECT_EQ(report.at("write_percent"), 60);
    }
  }
}

// What is mapped to be read only would end the program with the first write.
TEST_F(RandomIoTest, ATraceSaysItselfWhetherAnythingIsWritten) {
  const std::string reads = write_file("reads", "r 0\nr 7\n");
  const std::string writes = write_file("writes", "w 0\nw 7\n");
  for (const std::string system : {"tiermap", "mmap", "memory"}) {
    EXPECT_EQ(verified_run({"--system", system, "--pattern", "trace", "--trace", reads}).at("access"), "read");
    EXPECT_EQ(verified_run({"--system", system, "--pattern", "trace", "--trace", writes}).at("access"), "write");
  }
  expect_refused(program, arguments({"--pattern", "trace", "--trace", reads, "--access", "read"}), "--access");
  expect_refused(program, arguments({"--pattern", "trace", "--trace", reads, "--accesses", "1"}), "--accesses");
  expect_refused(program,
                 arguments({"--pattern", "trace", "--trace", writes, "--system", "memory", "--processes", "2"}),
                 "memory");
}

TEST_F(RandomIoTest, BlocksOfAnySizeAndMoreAccessesThanBlocks) {
  const nlohmann::json report = verified_run({"--access", "mixed", "--write-share", "10", "--block", "32KiB",
                                              "--accesses", "3000", "--fault-mode", "self-serving"});
  EXPECT_EQ(report.at("operations"), 3000);
  EXPECT_EQ(report.at("block_bytes"), 32768);
}

TEST_F(RandomIoTest, RefusesWhatCannotBeMeant) {
  const std::string there = write_file("there", "something");
  const std::string letters = write_file("letters", "r 1\nx 2\n");
  const std::string beyond = write_file("beyond", "r 1\nw 2048\n");
  const std::string empty = write_file("empty", "# nothing\n");
  expect_refused(program, arguments({"--access", "append"}), "append");
  expect_refused(program, arguments({"--pattern", "spiral"}), "spiral");
  expect_refused(program, arguments({"--block", "3KiB"}), "3KiB");
  expect_refused(program, arguments({"--block", "16MiB"}), "16MiB");
  expect_refused(program, arguments({"--pattern", "zipfian", "--skew", "1"}), "skew 1");
  expect_refused(program, arguments({"--skew", "0.5"}), "--pattern zipfian");
  expect_refused(program, arguments({"--access", "mixed", "--write-share", "101"}), "101");
  expect_refused(program, arguments({"--write-share", "20"}), "--access mixed");
  expect_refused(program, arguments({"--access", "write", "--write-share", "20"}), "--access mixed");
  expect_refused(program, arguments({"--processes", "0"}), "processes 0");
  expect_refused(program, arguments({"--processes", "2", "--system", "memory", "--access", "write"}), "memory");
  expect_refused(program, {"--bytes", "8MiB", "--processes", "2"}, "--budget");
  expect_refused(program, arguments({"--processes", "2", "--access", "write", "--file", "memory:8MiB"}), "one process");
  expect_refused(program, {"--bytes", "8MiB", "--budget", "1MiB", "--file", "memory:4MiB"}, "memory:4MiB has 4MiB");
  expect_refused(program, arguments({"--trace", letters}), "--pattern trace");
  expect_refused(program, arguments({"--pattern", "trace", "--trace", letters}), "letters:2: ");
  expect_refused(program, arguments({"--pattern", "trace", "--trace", beyond}), "2048");
  expect_refused(program, arguments({"--pattern", "trace", "--trace", empty}), "holds no access");
  expect_refused(program, arguments({"--pattern", "trace", "--trace", path("none")}), "cannot be opened");
  expect_refused(program, arguments({"--file", there}), "exists");
  expect_refused(program, arguments({"--direct", "--file", "memory:///x"}), "--direct");
}

TEST_F(RandomIoTest, AFileHasItsNameOnceItIsWhole) {
  const std::string file = path("work/blocks");
  write_file("work/blocks.partial", "of a run that was killed");
  expect_refused(program, arguments({"--file", file}), "blocks.partial is there", 1);
  std::filesystem::remove(file + ".partial");
  for (const std::string& url : {file, "file:" + file + "2", "sparse:" + file + "3?segment=1MiB"}) {
    const Outcome outcome = run(program, arguments({"--file", url, "--keep", "--access", "write"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
    EXPECT_EQ(outcome.json().at("file"), url);
    EXPECT_EQ(outcome.json().at("verified"), true);
  }
  EXPECT_EQ(left_behind(), (std::vector<std::string>{"blocks", "blocks2", "blocks3"}));
}

// One bit of a word that no access touches: a page that came from elsewhere, or was half filled, shows only there.
TEST(TestFileTest, EveryWordIsLookedAt) {
  constexpr std::uint64_t block_bytes = 4096;
  const std::shared_ptr<Store> store = open_store("memory:64KiB", OpenMode::read_write);
  ThreadTeam team(2);
  ProgressDisplay progress("", 0);
  write_blocks(*store, block_bytes, 7, team, progress);
  const std::vector<std::uint32_t> writes(16);
  EXPECT_EQ(find_wrong_block(*store, block_bytes, 7, writes, team, progress), "");
  for (const std::uint64_t offset : {2 * block_bytes + 16, 3 * block_bytes + 2048, 16 * block_bytes - 1}) {
    std::byte byte{};
    ASSERT_EQ(store->read(&byte, 1, offset), 1);
    const std::byte other = byte ^ std::byte{4};
    ASSERT_EQ(store->write(&other, 1, offset), 1);
    EXPECT_NE(find_wrong_block(*store, block_bytes, 7, writes, team, progress).find("other bytes at"),
              std::string::npos)
        << offset;
    ASSERT_EQ(store->write(&byte, 1, offset), 1);
  }
  EXPECT_EQ(find_wrong_block(*store, block_bytes, 7, writes, team, progress), "");
}

TEST(AccessSequenceTest, UniformMeetsEveryBlockOnceAndIsTheSameAgain) {
  for (const std::uint64_t count : {1U, 2U, 3U, 100U, 4097U}) {
    const auto sequence = uniform_sequence({10, count}, {.seed = 5, .accesses = 2 * count, .write_percent = 50});
    const auto again = uniform_sequence({10, count}, {.seed = 5, .accesses = 2 * count, .write_percent = 50});
    for (std::uint64_t round = 0; round < 2; ++round) {
      std::set<std::uint64_t> met;
      for (std::uint64_t index = round * count; index < (round + 1) * count; ++index) {
        met.insert(sequence->at(index).block);
        EXPECT_EQ(sequence->at(index).block, again->at(index).block);
        EXPECT_EQ(sequence->at(index).write, again->at(index).write);
      }
      EXPECT_EQ(met.size(), count);
      EXPECT_EQ(*met.begin(), 10U);
      EXPECT_EQ(*met.rbegin(), 9U + count);
    }
  }
}

TEST(AccessSequenceTest, ZipfianFollowsItsLaw) {
  constexpr std::uint64_t blocks = 1000;
  constexpr std::uint64_t accesses = 200'000;
  const auto sequence = zipfian_sequence({0, blocks}, 0.99, {.seed = 3, .accesses = accesses});
  std::vector<std::uint64_t> counts(blocks);
  for (std::uint64_t index = 0; index < accesses; ++index) {
    ++counts.at(sequence->at(index).block);
  }
  std::sort(counts.rbegin(), counts.rend());
  // 1 / (sum of r^-0.99 for r up to 1000), computed apart from the program, is 0.1293.
  EXPECT_NEAR(static_cast<double>(counts[0]) / accesses, 0.1293, 0.005);
  EXPECT_NEAR(static_cast<double>(counts[0]) / static_cast<double>(counts[1]), std::pow(2, 0.99), 0.15);
  EXPECT_GT(counts.back(), 0U);
}

TEST(AccessSequenceTest, TheShareOfWritesIsTheOneAsked) {
  const auto sequence = uniform_sequence({0, 10'000}, {.seed = 9, .accesses = 10'000, .write_percent = 30});
  std::uint64_t writes = 0;
  for (std::uint64_t index = 0; index < sequence->size(); ++index) {
    writes += sequence->at(index).write ? 1U : 0U;
  }
  EXPECT_NEAR(static_cast<double>(writes), 3000, 200);
}

TEST(LatencyCountsTest, QuantilesAreRightToOneInSixteen) {
  LatencyCounts counts;
  EXPECT_EQ(counts.quantile_nanoseconds(0.5), 0U);
  for (std::uint64_t nanoseconds = 1; nanoseconds <= 100'000; ++nanoseconds) {
    counts.add(nanoseconds);
  }
  for (const double share : {0.0001, 0.01, 0.5, 0.9, 0.999, 1.0}) {
    const double exact = share * 100'000;
    const auto found = static_cast<double>(counts.quantile_nanoseconds(share));
    EXPECT_GE(found, exact);
    EXPECT_LE(found, exact * 17 / 16 + 1);
  }
  counts.add(~std::uint64_t{0});
  EXPECT_EQ(counts.quantile_nanoseconds(1), ~std::uint64_t{0});
}

TEST(ProcessGroupTest, AFailureEndsTheOthersWait) {
  const auto work = [](std::uint32_t index, const std::function<void()>& wait_for_all) {
    if (index == 2) {
      throw std::runtime_error("no such luck");
    }
    wait_for_all();
  };
  try {
    run_processes(4, work, [] {});
    FAIL() << "the failure was not told";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "no such luck");
  }
}

TEST(ProcessGroupTest, AProcessThatIsKilledIsAFailure) {
  const auto work = [](std::uint32_t index, const std::function<void()>& wait_for_all) {
    if (index == 1) {
      ::raise(SIGKILL);
    }
    wait_for_all();
  };
  EXPECT_THROW(run_processes(2, work, [] {}), std::runtime_error);
}

}  // namespace
}  // namespace tiermap::test
