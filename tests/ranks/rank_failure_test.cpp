// What goes wrong on one rank ends all of them, with one line that names it; nothing that was made is left.
#include <thread>

#include "ranks/ranked_program_fixture.hpp"

namespace tiermap::test {
namespace {

const char* const program = "tiermap-kmeans";

class RankFailureTest : public RankedProgramTest {
 protected:
  /// Of a run that would take minutes.
  std::string long_command() const {
    std::string words = std::string(TIERMAP_BINARY_FOLDER) + "/" + program;
    for (const std::string& argument : long_run()) {
      words += " " + argument;
    }
    return words;
  }
  std::vector<std::string> long_run() const {
    EXPECT_EQ(run(program, {"generate", "--bytes", "2400000", "--file", path("points")}).exit_code, 0);
    return {path("points"), "--clusters", "200",         "--iterations", "1000000", "--tolerance", "0",
            "--threads",    "1",          "--no-verify", "--budget",     "16MiB"};
  }
  void expect_one_line(const Outcome& outcome, const std::string& part, int code) const {
    EXPECT_EQ(outcome.exit_code, code);
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_NE(outcome.errors.find("tiermap-kmeans: rank "), std::string::npos) << outcome.errors;
    EXPECT_NE(outcome.errors.find(part), std::string::npos) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    EXPECT_TRUE(left_behind().empty());
  }
};

TEST_F(RankFailureTest, WhatAllRanksFindWrongOneOfThemSays) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const std::string there = write_file("there", "");
  expect_one_line(run_ranks(3, program, {path("missing")}), "cannot be opened", 2);
  expect_one_line(run_ranks(3, program, {path("missing"), "--odd"}), "--odd: see tiermap-kmeans --help", 2);
  expect_one_line(run_ranks(3, program, {path("missing"), "--assignments", there}), "exists", 2);
  expect_one_line(run_ranks(2, program, {"--bytes", "1MB"}), "points are made by one process", 2);
  const Outcome help = run_ranks(3, program, {"--help"});
  EXPECT_EQ(help.exit_code, 0) << help.errors;
  EXPECT_EQ(help.output, run(program, {"--help"}).output);
}

TEST_F(RankFailureTest, WhatOneRankFindsWrongEndsAll) {
  const std::string command = long_command();
  // Rank 1 is told of a file that is not there.
  std::string mistaken = command;
  mistaken.replace(mistaken.find(path("points")), path("points").size(), "missing");
  const std::string script = "export TIERMAP_RANKS=3\nTIERMAP_RANK=1 " + mistaken + " &\nTIERMAP_RANK=0 " + command +
                             " &\nfirst=$!\nTIERMAP_RANK=2 " + command + " &\nwait $first\ncode=$?\nwait\nexit $code\n";
  expect_one_line(run("/bin/sh", {"-c", script}), "rank 1: missing cannot be opened", 1);
}

TEST_F(RankFailureTest, AKilledRankEndsTheOthers) {
  const std::string command = long_command();
  // As srun does it: nobody but the ranks themselves ends the others.
  const std::string script = "export TIERMAP_RANKS=3\nTIERMAP_RANK=0 " + command + " &\nfirst=$!\nTIERMAP_RANK=2 " +
                             command + " &\nTIERMAP_RANK=1 " + command +
                             " &\nsleep 2\nkill -KILL $!\nwait $first\ncode=$?\nwait\nexit $code\n";
  const Outcome outcome = run("/bin/sh", {"-c", script});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("rank 1 at 127.0.0.1:"), std::string::npos) << outcome.errors;
  EXPECT_NE(outcome.errors.find(" ended without leaving it\n"), std::string::npos) << outcome.errors;
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_LE(left_behind().size(), 1U);  // The killed one's scratch file.
}

TEST_F(RankFailureTest, AKilledRankEndsMpiexec) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  const pid_t started = start_ranks(3, program, long_run());
  const pid_t rank = process_of_rank(program, 1);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  ::kill(rank, SIGKILL);
  const Outcome outcome = outcome_of(started);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_LT(outcome.exit_code, 128 + SIGALRM);
  EXPECT_EQ(outcome.output.find("kmeans with"), std::string::npos) << outcome.output;
}

TEST_F(RankFailureTest, AServerThatDiesEndsAll) {
  const std::string command = long_command();
  const pid_t started = start(
      "/bin/sh", {"-c", "export TIERMAP_RANKS=2\nTIERMAP_RANK=1 " + command + " &\nTIERMAP_RANK=0 " + command + "\n"});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  server.signal(SIGKILL);
  const Outcome outcome = outcome_of(started);
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_NE(outcome.errors.find("rank 0: job 'job': server " + server.address + " is gone"), std::string::npos)
      << outcome.errors;
  EXPECT_NE(outcome.errors.find("see whether it runs, and start the job again"), std::string::npos) << outcome.errors;
}

TEST_F(RankFailureTest, WithoutAServerEachRankSaysSo) {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
  set_environment("TIERMAP_SERVERS", "");
  const Outcome outcome = run_ranks(2, program, {path("missing")});
  EXPECT_EQ(outcome.exit_code, 2);
  for (const char* rank : {"0", "1"}) {
    EXPECT_NE(outcome.errors.find(std::string("tiermap-kmeans: rank ") + rank + ": a job needs a memory server"),
              std::string::npos)
        << outcome.errors;
  }
}

}  // namespace
}  // namespace tiermap::test
