// The frame of every application's main(): parse, work, print, and the exit code that scripts rely on.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "command_line/options.hpp"
#include "command_line/ranks.hpp"
#include "command_line/report.hpp"

namespace tiermap {

/// A program with the shared options. Declare further options on app().
class Program {
 public:
  Program(std::string name, const std::string& description, std::uint64_t default_page_size);

  CLI::App& app() noexcept { return app_; }
  /// A default page size that other options have a say in: `choose` is called when all have been parsed.
  void choose_default_page_size(std::function<std::uint64_t()> choose) {
    choose_default_page_size_ = std::move(choose);
  }
  /// Allows a further --system: WorkloadOptions::peer.
  void add_peer(const std::string& name) { shared_.add_peer(name); }

  /// Parses, calls `work`, prints its report. Returns the exit code: 0 if the result was right (or not to be checked),
  /// 1 if it was wrong or the work failed, 2 for bad input. Standard output gets the report only; errors are one line.
  int run(int argc, char** argv, const std::function<Report(const WorkloadOptions&)>& work);

  /// The same for a program that several processes may run together. `work` is called in each of them, all of which
  /// prepare what is to be reported; the first one prints it, with the resources of all. What goes wrong on any rank
  /// ends all of them with one line that names the rank; while they look for each other, each has a line of its own.
  int run_on_ranks(int argc, char** argv, const std::function<Report(const WorkloadOptions&, Ranks&)>& work);

 private:
  using Work = std::function<Report(const WorkloadOptions&, Ranks&)>;

  int run_alone(int argc, char** argv, const Work& work);
  int run_joined(int argc, char** argv, const Work& work, Ranks& ranks);
  int run_parsed(const Work& work, Ranks& ranks);

  std::string name_;
  CLI::App app_;
  SharedOptions shared_;
  std::function<std::uint64_t()> choose_default_page_size_;
};

/// What is said where standard output takes no more: a full disk, a pipe that nobody reads.
inline constexpr const char* unwritable_output =
    "standard output cannot be written: give it room, or read it to the end";

/// Nothing that is opened from now on gets the number of a standard stream that whoever started the program had closed:
/// what is said there would be written into it.
void hold_standard_streams();

/// Throws OptionError if an option was given as nothing. It would count as not given, and a script's empty variable
/// would choose another file than was meant.
void refuse_empty_values(const CLI::App& app);

/// Runs `body`; an exception becomes one line on standard error that begins with `name`, and exit code 1 or 2.
int exit_code_of(const std::string& name, const std::function<int()>& body);

/// The same for a failure of CLI11's: 0 after --help and --version, 2 and one line for all else.
int exit_code_of(const std::string& name, const CLI::App& app, const CLI::ParseError& error);

}  // namespace tiermap
