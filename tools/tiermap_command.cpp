// The `tiermap` command: reads the command line, runs one subcommand, and turns errors into one line and an exit code:
// 2 for what the user can correct, 1 for what failed.

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "commands.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"
#include "tiermap/version.hpp"

namespace tiermap {
namespace {

constexpr int exit_failure = 1;
constexpr int exit_bad_input = 2;

/// Messages of the command line's library may go over several lines.
std::string one_line(std::string text) {
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The word that was to be a subcommand and is none; empty if there is no such word.
std::string unknown_command(const CLI::App& program, int argc, char** argv) {
  const std::string word = argc < 2 ? "" : argv[1];
  if (word == "-h" || word == "--help" || word == "--version") {
    return "";
  }
  const auto known = program.get_subcommands([&](const CLI::App* command) { return command->get_name() == word; });
  return known.empty() ? word : "";
}

/// One line on standard error, if anybody can read it.
void complain(const std::string& message) {
  std::fputs(("tiermap: " + message + "\n").c_str(), stderr);
}

int run(int argc, char** argv) {
  CLI::App program("What this machine offers Tiermap, what it is configured to do, and what programs do with it.",
                   "tiermap");
  program.require_subcommand(1);
  program.set_version_flag("--version", std::string("tiermap ") + TIERMAP_VERSION);
  add_config_command(program);
  add_doctor_command(program);
  add_replay_command(program);
  add_run_command(program);
  add_top_command(program);
  add_tune_command(program);
  add_version_command(program);
  add_reference_command(program);
  if (const std::string word = unknown_command(program, argc, argv); !word.empty()) {
    complain("unknown command " + quote_value(word) + ": run 'tiermap --help'");
    return exit_bad_input;
  }
  try {
    program.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return program.exit(help);
  } catch (const CLI::ParseError& error) {
    complain(one_line(error.what()) + ": run 'tiermap --help'");
    return exit_bad_input;
  } catch (const ExitCode& exit) {
    return exit.code;
  } catch (const OptionError& error) {
    complain(error.what());
    return exit_bad_input;
  } catch (const std::exception& error) {
    complain(one_line(error.what()));
    return exit_failure;
  }
}

}  // namespace
}  // namespace tiermap

int main(int argc, char** argv) {
  const int code = tiermap::run(argc, argv);
  // What a full disk or a closed pipe swallowed has not been said.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    tiermap::complain("standard output cannot be written: give it room, or read it to the end");
    return std::max(code, 1);
  }
  return code;
}
