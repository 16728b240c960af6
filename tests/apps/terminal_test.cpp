// What a program shows while it works: on a terminal what it does, how far it is, how fast and how long it will take;
// in a pipe nothing.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <regex>

#include "apps/program_fixture.hpp"

namespace tiermap::test {
namespace {

class TerminalTest : public ProgramTest {
 protected:
  /// Runs a program with a terminal for standard error until that has shown `wanted`, then interrupts it. Returns all
  /// that was shown.
  std::string shown_by(const std::string& program, const std::vector<std::string>& arguments,
                       const std::regex& wanted) {
    int outer = -1;
    int inner = -1;
    winsize size{};
    size.ws_col = 100;
    size.ws_row = 30;
    EXPECT_EQ(::openpty(&outer, &inner, nullptr, nullptr, &size), 0);
    set_environment("TERM", "xterm");
    const pid_t child = start(program, arguments, inner);
    ::close(inner);
    std::string shown;
    bool interrupted = false;
    for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
         std::chrono::steady_clock::now() < end;) {
      pollfd input{outer, POLLIN, 0};
      if (::poll(&input, 1, 100) <= 0) {
        continue;
      }
      char buffer[4096];
      const ssize_t got = ::read(outer, buffer, sizeof(buffer));
      if (got <= 0) {
        break;  // The program has ended, and its terminal with it.
      }
      shown.append(buffer, static_cast<std::size_t>(got));
      if (!interrupted && std::regex_search(shown, wanted)) {
        interrupted = true;
        ::kill(child, SIGTERM);
      }
    }
    if (!interrupted) {
      ::kill(child, SIGTERM);
    }
    ::close(outer);
    EXPECT_EQ(outcome_of(child).exit_code, 128 + SIGTERM) << shown;
    EXPECT_TRUE(interrupted) << shown;
    return shown;
  }
};

// "generating  25%  512 MiB of 2.00 GiB  512 MiB/s  0:03 left"
const char* const amounts = "  [0-9]+%  [0-9.]+ [KMGi]*B of [0-9.]+ [KMG]iB  [0-9.]+ [KMGi]*B/s  [0-9:]+ left";

TEST_F(TerminalTest, TheSortSaysWhatHowFarHowFastAndHowLong) {
  shown_by("tiermap-sort", {"--bytes", "2GiB", "--budget", "64MiB"}, std::regex(std::string("generating") + amounts));
  shown_by("tiermap-sort", {"--bytes", "96MiB", "--budget", "4MiB", "--page-size", "4KiB", "--threads", "1"},
           std::regex(std::string("sorting") + amounts));
}

// "searching  25%  1.05 M of 4.19 M  524 k/s  0:06 left"
const char* const counts = "  [0-9]+%  [0-9.]+( [kMG])? of [0-9.]+( [kMG])?  [0-9.]+( [kMG])?/s  [0-9:]+ left";

TEST_F(TerminalTest, TheSearchSaysWhatHowFarHowFastAndHowLong) {
  const std::string graph = path("work/graph");
  const Outcome built = run("tiermap-bfs", {"--scale", "17", "--graph", graph, "--build-only", "--budget", "64MiB"});
  ASSERT_EQ(built.exit_code, 0) << built.errors;
  EXPECT_EQ(built.errors, "");
  // From many roots: one of the searches is seen while it is under way.
  shown_by("tiermap-bfs",
           {"--graph", graph, "--roots", "64", "--no-verify", "--threads", "1", "--direction", "top-down", "--prefetch",
            "off", "--budget", "4MiB", "--page-size", "4KiB"},
           std::regex(std::string("searching") + counts));
}

TEST_F(TerminalTest, NothingIsShownWhereStandardErrorIsNoTerminal) {
  const Outcome outcome = run("tiermap-sort", {"--bytes", "64MiB", "--budget", "4MiB"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.errors, "");
}

}  // namespace
}  // namespace tiermap::test
