// `tiermap tune`: what it says of a program that it can tune, of those that it cannot, and of those that fail.
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <regex>
#include <thread>

#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"
#include "tools/command.hpp"

namespace tiermap {
namespace {

std::string random_io() {
  return std::string(TIERMAP_BINARY_FOLDER) + "/tiermap-random-io";
}

class Tune : public ::testing::Test {
 protected:
  CommandResult tune(std::vector<std::string> arguments, Variables variables = {}) const {
    arguments.insert(arguments.begin(), "tune");
    variables.emplace_back("TMPDIR", directory_.path());
    return run_tiermap(arguments, variables);
  }
  /// A small program that uses Tiermap, and does not fit in its budget.
  static std::vector<std::string> with_random_io(std::vector<std::string> arguments,
                                                 const std::vector<std::string>& more = {}) {
    const std::vector<std::string> command = {"--",         random_io(), "--bytes",   "4MiB", "--budget",   "1MiB",
                                              "--accesses", "500",       "--threads", "1",    "--no-verify"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  static void expect_failure(const CommandResult& result, int exit_code, const std::string& message) {
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_TRUE(is_one_line(result.errors)) << result.errors;
    EXPECT_NE(result.errors.find(message), std::string::npos) << result.errors;
  }

  TemporaryDirectory directory_ = TemporaryDirectory("/dev/shm");
};

TEST_F(Tune, PrintsSettingsThatCanBePastedAndWhatWasTriedInVain) {
  const CommandResult result = tune(with_random_io({"--runs", "6"}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.errors, "") << "quiet where standard error is no terminal";
  const std::regex line("#.*|TIERMAP_[A-Z_]+=[0-9A-Za-z-]+");
  std::istringstream lines(result.output);
  for (std::string text; std::getline(lines, text);) {
    EXPECT_TRUE(std::regex_match(text, line)) << text;
  }
  EXPECT_TRUE(result.output.starts_with("# as it is: ")) << result.output;
  EXPECT_NE(result.output.find("TIERMAP_PAGE_SIZE=16KiB"), std::string::npos) << result.output;
  EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
}

TEST_F(Tune, WhatTheProgramSetsInCodeIsNotTried) {
  const CommandResult result = tune(with_random_io({"--runs", "3"}, {"--page-size", "8KiB"}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("sets its page size in code, over the environment: 8KiB"), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("\nTIERMAP_PAGE_SIZE"), std::string::npos);
}

TEST_F(Tune, NorIsAPolicyThatTheProgramSetsInCode) {
  // Before it come a page size, a few steps of reading ahead, and watermarks.
  const CommandResult result =
      tune(with_random_io({"--runs", "14"}, {"--page-size", "8KiB", "--policy", "lru", "--read-ahead", "0"}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("sets its policy in code, over the environment: lru"), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("TIERMAP_POLICY"), std::string::npos) << result.output;
}

// As one that takes about as long as a run may.
TEST_F(Tune, ACommandThatIsNotDoneWhenAllIsComparedAgainTookWhatItTookBefore) {
  const std::string script =
      "if [ -z \"$TIERMAP_PAGE_SIZE\" ]; then"
      " echo >> \"$1\"; [ $(wc -l < \"$1\") -gt 2 ] && exec sleep 100; sleep 0.6;"
      " fi; exec \"$2\" --bytes 4MiB --budget 1MiB --accesses 500 --threads 1 --no-verify";
  const CommandResult result =
      tune({"--seconds", "2", "--", "sh", "-c", script, "script", directory_ / "runs", random_io()});
  if (result.exit_code == 1) {
    EXPECT_NE(result.errors.find("--seconds"), std::string::npos) << result.errors;
    GTEST_SKIP() << "the machine is too busy for the program to end in time";
  }
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output.find("inf s"), std::string::npos) << result.output;
}

TEST_F(Tune, WhatDoesNotEndIsCutOffAndMeasuredByItsOwnWork) {
  const CommandResult result = tune({"--seconds", "2", "--runs", "2", "--", random_io(), "--bytes", "4MiB", "--budget",
                                     "64MiB", "--accesses", "1000000000", "--threads", "1"});
  if (result.exit_code == 1) {
    expect_failure(result, 1, " itself: too little to compare runs by; ");
    GTEST_SKIP() << "the machine is too busy for the program to work";
  }
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find(" s of its own work a second; "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("each run was cut off"), std::string::npos) << result.output;
}

TEST_F(Tune, WhatIsCutOffBeforeItHasWorkedIsRefused) {
  expect_failure(tune({"--seconds", "0.3", "--", random_io(), "--bytes", "4MiB", "--budget", "64MiB", "--accesses",
                       "1000000000", "--threads", "1"}),
                 1, " itself: too little to compare runs by; let it end, with more --seconds or less to do");
}

TEST_F(Tune, AFailingCommandsExitCodeIsPassedOn) {
  expect_failure(tune({"--", "sh", "-c", "exit 5"}), 5, "command 'sh' ended with exit code 5 as it is");
  expect_failure(tune({"--", "sh", "-c", "kill -9 $$"}), 128 + SIGKILL, "ended with exit code 137");
  const CommandResult talking = tune({"--", "sh", "-c", "echo out; echo why >&2; exit 3"});
  EXPECT_EQ(talking.exit_code, 3);
  EXPECT_TRUE(talking.errors.starts_with("why\ntiermap: command 'sh' ended with exit code 3 ")) << talking.errors;
  EXPECT_EQ(talking.output, "");
}

TEST_F(Tune, ACommandThatDoesNotUseTiermapIsToldSo) {
  expect_failure(tune({"--", "true"}), 1, "command 'true' showed no cache in ");
  expect_failure(tune({"--seconds", "0.2", "--", "sleep", "60"}), 1, "command 'sleep' showed no cache in ");
  expect_failure(tune({"--", "/no/such/program"}), 1,
                 "command '/no/such/program' cannot be started: No such file or directory");
  expect_failure(tune({"--", random_io(), "--bytes", "64MiB", "--budget", "4MiB", "--fault-mode", "kernel"}), 1,
                 "fault mode kernel, which has nothing to tune");
}

// Nobody is told then that a process has ended.
TEST_F(Tune, ACommandIsWaitedForWhereTheEndOfProcessesIsIgnored) {
  const CommandResult result = run_tiermap({"tune", "--seconds", "1", "--", "true"}, {{"TMPDIR", directory_.path()}},
                                           [] { return ::signal(SIGCHLD, SIG_IGN) != SIG_ERR; });
  expect_failure(result, 1, "showed no cache");
}

TEST_F(Tune, BadCommandLinesAreRefused) {
  expect_failure(tune({}), 2, "COMMAND is required");
  expect_failure(tune({"--seconds", "1", "echo", "--runs", "5"}), 2, "'--runs' stands behind the program");
  expect_failure(tune({"--runs", "1", "--", "true"}), 2, "--runs");
  expect_failure(tune({"--seconds", "0", "--", "true"}), 2, "--seconds");
  expect_failure(tune({"--seconds", "nan", "--", "true"}), 2, "nan not in range");
}

/// The process that it tunes, once it is there; which says so in that file.
pid_t sleeper_in(const std::string& mark) {
  pid_t sleeper = 0;
  for (int wait = 0; wait < 1000 && sleeper == 0; ++wait) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::string text = std::filesystem::exists(mark) ? read_file(mark) : "";
    sleeper = text.ends_with('\n') ? std::stoi(text) : 0;
  }
  return sleeper;
}

TEST_F(Tune, WhoIsNotToEndWithTheTerminalGoesOn) {
  const std::string mark = directory_ / "sleeps";
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGHUP, SIG_IGN);
    ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), STDERR_FILENO);
    become_command({"tune", "--seconds", "1", "--", "sh", "-c", "echo $$ > " + mark + "; exec sleep 100"}, {});
  }
  EXPECT_GT(sleeper_in(mark), 0);
  ::kill(child, SIGHUP);
  EXPECT_EQ(exit_code_of(child), 1);  // As such a command has nothing to tune.
}

TEST_F(Tune, AnInterruptEndsTheCommandToo) {
  const std::string mark = directory_ / "sleeps";
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDWR | O_CLOEXEC), STDERR_FILENO);
    become_command({"tune", "--", "sh", "-c", "echo $$ > " + mark + "; exec sleep 100"}, {});
  }
  const pid_t sleeper = sleeper_in(mark);
  ASSERT_GT(sleeper, 0);
  ::kill(child, SIGTERM);
  EXPECT_EQ(exit_code_of(child), 128 + SIGTERM);
  EXPECT_NE(::kill(sleeper, 0), 0);
}

TEST_F(Tune, WhatAScriptRunsHasTimeToRemoveWhatItMadeWhenItIsEnded) {
  const std::string made = directory_ / "made";
  const std::string program =
      "trap 'sleep 0.3; rm -f " + made + "; exit' TERM; : > " + made + "; while :; do sleep 0.05; done";
  const CommandResult result = tune({"--seconds", "2", "--", "sh", "-c", "sh -c \"$1\" & wait", "script", program});
  EXPECT_NE(result.errors.find("showed no cache"), std::string::npos) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(made));
}

}  // namespace
}  // namespace tiermap
