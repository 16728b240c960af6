// The exit code that scripts rely on: 0 only when the result was right, or was not to be checked. What a report says is
// given to the frame of every program by hand; then a real program gets a file that somebody else changes.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <thread>

#include "apps/program_fixture.hpp"
#include "command_line/output_file.hpp"
#include "command_line/program.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

class ExitCodeTest : public ProgramTest {
 protected:
  /// In a process of its own: Program::run() takes the signals over.
  Outcome run_frame(std::vector<std::string> arguments, const std::function<Report(const WorkloadOptions&)>& work) {
    arguments.insert(arguments.begin(), "tiermap-frame");
    std::vector<char*> pointers;
    for (std::string& argument : arguments) {
      pointers.push_back(argument.data());
    }
    pointers.push_back(nullptr);
    // What is still to be written is the parent's alone.
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(::open(path("output").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
      ::dup2(::open(path("errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
      Program frame("tiermap-frame", "A program of the tests.", 4096);
      ::_exit(frame.run(static_cast<int>(arguments.size()), pointers.data(), work));
    }
    return outcome_of(child);
  }
};

Report report_of(const WorkloadOptions& options, std::optional<bool> verified, const std::string& failure) {
  const std::unique_ptr<MemorySystem> system = MemorySystem::make(options);
  Measurement measured(*system);
  measured.pause();
  Report report;
  report.workload = "frame";
  report.verified = verified;
  report.failure = failure;
  report.describe(options, *system, measured);
  return report;
}

TEST_F(ExitCodeTest, AWrongResultIsOneLineAndOne) {
  const auto wrong = [](const WorkloadOptions& options) {
    return report_of(options, false, "word 3 is\nnot in order");
  };
  const Outcome json = run_frame({"--system", "memory", "--json"}, wrong);
  EXPECT_EQ(json.exit_code, 1);
  EXPECT_EQ(json.errors, "tiermap-frame: word 3 is not in order\n");
  EXPECT_EQ(json.json().at("verified"), false);
  const Outcome text = run_frame({"--system", "memory"}, wrong);
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.output.find("WRONG: word 3"), std::string::npos) << text.output;
}

TEST_F(ExitCodeTest, ARightResultAndOneThatIsNotToBeCheckedAreZero) {
  for (const std::optional<bool> verified : {std::optional<bool>(true), std::optional<bool>()}) {
    const Outcome outcome = run_frame({"--system", "memory", "--json"},
                                      [&](const WorkloadOptions& options) { return report_of(options, verified, ""); });
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.errors, "");
    EXPECT_EQ(outcome.json().at("verified").is_null(), !verified.has_value());
  }
}

TEST_F(ExitCodeTest, AReportOfAFileOfAnyNameIsPrinted) {
  const Outcome outcome = run_frame({"--system", "memory", "--json"}, [](const WorkloadOptions& options) {
    Report report = report_of(options, true, "");
    report.fields["file"] = "caf\xe9";
    return report;
  });
  EXPECT_EQ(outcome.exit_code, 0) << outcome.errors;
  EXPECT_EQ(outcome.json().at("file"), "caf\xef\xbf\xbd");
}

TEST_F(ExitCodeTest, WhatFailsAtWorkIsOneAndWhatTheUserCanMendIsTwo) {
  const auto code_after = [&](const std::function<void()>& failing) {
    const Outcome outcome = run_frame({"--system", "memory"}, [&](const WorkloadOptions&) -> Report {
      failing();
      return {};
    });
    EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
    EXPECT_EQ(outcome.output, "");
    return outcome.exit_code;
  };
  EXPECT_EQ(code_after([] { throw StoreError(EIO, "the disk is broken"); }), 1);
  EXPECT_EQ(code_after([] { throw StoreError(ENOSPC, "the disk is full"); }), 1);
  EXPECT_EQ(code_after([] { throw std::bad_alloc(); }), 1);
  EXPECT_EQ(code_after([] { throw std::logic_error("a mistake of the program"); }), 1);
  EXPECT_EQ(code_after([] { throw StoreError(ENOENT, "no such file"); }), 2);
  EXPECT_EQ(code_after([] { throw OptionError("two options contradict each other"); }), 2);
  EXPECT_EQ(code_after([] { throw PlatformError(EPERM, "not permitted here"); }), 2);
}

TEST_F(ExitCodeTest, AReportThatCannotBeWrittenIsOne) {
  const Outcome outcome = run_frame({"--system", "memory"}, [](const WorkloadOptions& options) {
    ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    return report_of(options, true, "");
  });
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.errors.find("cannot be written"), std::string::npos) << outcome.errors;
}

TEST_F(ExitCodeTest, AnOutputThatFailedSaysTheSameToEachThread) {
  OutputFile full("/dev/full");
  full.stream() << std::string(std::size_t{1} << 20U, 'x') << std::flush;
  for (const int left_over : {ENOSPC, 0, EAGAIN}) {
    errno = left_over;
    try {
      full.check();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), ENOSPC) << error.what();
    }
  }
}

// mmap: what is written past the mapping while it is sorted shows in it, and stays.
TEST_F(ExitCodeTest, SortingAFileThatSomebodyElseChangesIsWrong) {
  constexpr std::uint64_t bytes = std::uint64_t{32} << 20;
  const std::string file = path("work/changing");
  ASSERT_EQ(run("tiermap-sort", {"--file", file, "--system", "mmap", "--bytes", std::to_string(bytes), "--budget",
                                 "64MiB", "--keep", "--no-verify"})
                .exit_code,
            0);
  const pid_t child = start("tiermap-sort", {"--file", file, "--in-place", "--system", "mmap", "--threads", "1",
                                             "--budget", "8MiB", "--json"});
  std::atomic<bool> ended{false};
  std::thread changer([&] {
    const int descriptor = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
    for (std::uint64_t word = 1; !ended; ++word) {
      const std::uint64_t value = word * 0x9e3779b97f4a7c15U;
      EXPECT_EQ(::pwrite(descriptor, &value, sizeof(value), static_cast<off_t>(value % bytes / 8 * 8)), 8);
    }
    ::close(descriptor);
  });
  const Outcome outcome = outcome_of(child);
  ended = true;
  changer.join();
  EXPECT_EQ(outcome.exit_code, 1) << outcome.errors;
  EXPECT_EQ(outcome.error_lines(), 1U) << outcome.errors;
  EXPECT_EQ(outcome.json().at("verified"), false);
}

/// A shell's line, in which PROGRAM stands for the program's path. Returns its exit code.
int run_shell(const std::string& program, std::string line) {
  const std::string path = std::string(TIERMAP_BINARY_FOLDER) + "/" + program;
  line.replace(line.find("PROGRAM"), std::string("PROGRAM").size(), "'" + path + "'");
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// All that are built: `tiermap` and the applications.
std::vector<std::string> programs() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TIERMAP_BINARY_FOLDER)) {
    const std::string name = entry.path().filename();
    if (name == "tiermap" || name.starts_with("tiermap-")) {
      names.push_back(name);
    }
  }
  EXPECT_GE(names.size(), 2U) << "no programs in " << TIERMAP_BINARY_FOLDER;
  return names;
}

TEST(ExitCode, IsTheSameIfNobodyCanReadTheMessage) {
  for (const std::string& program : programs()) {
    SCOPED_TRACE(program);
    EXPECT_EQ(run_shell(program, "PROGRAM --nonsense 2>&-"), 2);
    EXPECT_EQ(run_shell(program, "PROGRAM --nonsense 2>/dev/full"), 2);
    EXPECT_EQ(run_shell(program, "PROGRAM --nonsense >&- 2>&-"), 2);
  }
}

TEST(ExitCode, IsOneIfHelpCannotBeWritten) {
  for (const std::string& program : programs()) {
    SCOPED_TRACE(program);
    EXPECT_EQ(run_shell(program, "PROGRAM --help >/dev/full 2>/dev/null"), 1);
  }
}

// As a script's empty variable is; tiermap-bfs took --graph "" for a graph of its own making.
TEST_F(ExitCodeTest, AnOptionGivenAsNothingIsRefused) {
  struct {
    const char* program;
    const char* option;
  } const options[] = {
      {"tiermap-sort", "--file"},          {"tiermap-sort", "--budget"},
      {"tiermap-sort", "--policy"},        {"tiermap-sort", "--seed"},
      {"tiermap-bfs", "--graph"},          {"tiermap-bfs", "--input"},
      {"tiermap-ingest", "--segments"},    {"tiermap-search", "--in"},
      {"tiermap-kmer", "--database"},      {"tiermap-kmer", "--reads"},
      {"tiermap-ycsb", "--workload"},      {"tiermap-debian-graph", "--output"},
      {"tiermap-kmeans", "--assignments"}, {"tiermap-random-forest", "--forest"},
#ifdef TIERMAP_HAS_MEDIAN
      {"tiermap-median", "--images"},
#endif
  };
  for (const auto& [program, option] : options) {
    SCOPED_TRACE(std::string(program) + " " + option);
    expect_refused(program, {option, ""}, std::string(option) + " is given as nothing");
  }
}

}  // namespace
}  // namespace tiermap::test
