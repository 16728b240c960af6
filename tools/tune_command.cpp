// `tiermap tune`: runs a command with other options, and says which make it faster, and why.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "commands.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"
#include "tune/search.hpp"

namespace tiermap {
namespace {

struct TuneOptions {
  std::vector<std::string> command;
  SearchLimits limits;
};

/// On a terminal: a line for each run.
void tell(const std::string& line, bool is_result) {
  if (::isatty(STDERR_FILENO) != 0) {
    std::fputs((is_result ? ": " + line + "\n" : line).c_str(), stderr);
    std::fflush(stderr);
  }
}

void print_result(const SearchResult& result) {
  fmt::print(
      "# as it is: {}; {} runs, of which equal ones differed by {:.1f} %; what gained under {:.0f} % was not kept\n",
      result.before, result.runs, 100 * result.spread, 100 * result.least_gain);
  if (result.cut_off) {
    fmt::print("# each run was cut off: what counts is how much of the time the program got to work itself\n");
  }
  if (result.adopted.empty()) {
    // Two are of the command as it is.
    fmt::print("# {}\n", result.runs <= 2 ? "nothing was tried, as no runs were left for it: give more --runs"
                                          : "nothing that was tried is faster for sure: leave the options as they are");
  } else {
    fmt::print("# with these: {}\n", result.after);
  }
  for (const Adopted& adopted : result.adopted) {
    fmt::print("# {}\n", adopted.why);
    for (const auto& [variable, value] : adopted.settings) {
      fmt::print("{}={}\n", variable, value);
    }
  }
  for (const std::string& remark : result.remarks) {
    fmt::print("# {}\n", remark);
  }
  if (result.last.statistics[Counter::evictions] > 0) {
    fmt::print("# not tried: TIERMAP_BUFFER_SIZE, which is yours to give ({} now): {} pages were given up for others\n",
               format_size_rounded(result.last.budget_bytes), result.last.statistics[Counter::evictions]);
  }
}

void tune(const TuneOptions& options) {
  try {
    const InterruptsHeld held;
    print_result(Search(options.command, options.limits, tell).run());
  } catch (const CommandFailed& failure) {
    std::fputs(failure.errors.c_str(), stderr);
    std::fputs(("tiermap: " + failure.message + "\n").c_str(), stderr);
    throw ExitCode{failure.exit_code};
  } catch (const Interrupted& interruption) {
    constexpr int shell_signal_base = 128;
    std::fputs("\ntiermap: interrupted: the command was ended, and nothing was tuned\n", stderr);
    throw ExitCode{shell_signal_base + interruption.signal_number};
  }
}

}  // namespace

CLI::App* add_tune_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "tune", "Run a command that uses Tiermap several times, and print the options that make it faster, and why.");
  const auto options = std::make_shared<TuneOptions>();
  command->add_option("COMMAND", options->command, "The command and its arguments, after --.")->required();
  command
      ->add_option("--seconds", options->limits.seconds,
                   "The longest that one run may take, 0.1 to 86400; 30 if not given. A longer one is cut off.")
      ->type_name("SECONDS")
      // The range alone lets through what is no number.
      ->check([](const std::string& text) {
        return text.find_first_of("nN") == std::string::npos ? "" : "Value " + text + " not in range 0.1 to 86400";
      })
      ->check(CLI::Range(0.1, 86400.0).description(""));
  command->add_option("--runs", options->limits.runs, "Runs at most, 2 to 1000; 24 if not given.")
      ->type_name("NUMBER")
      ->check(CLI::Range(2U, 1000U).description(""));
  command->callback([options] { tune(*options); });
  return command;
}

}  // namespace tiermap
