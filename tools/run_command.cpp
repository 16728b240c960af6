// `tiermap run`: becomes a program whose mappings of files are served by Tiermap.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "config/misspelt_variables.hpp"
#include "config/option_table.hpp"
#include "config/resolve.hpp"
#include "config/size.hpp"
#include "preload/settings.hpp"
#include "run/program_kind.hpp"
#include "store/file_descriptor.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr const char* library_name = "libtiermap-preload.so";
/// As shells have it.
constexpr int not_found = 127;
constexpr int not_executable = 126;

struct RunOptions {
  std::vector<std::string> command;
  std::optional<std::string> buffer;
  std::optional<std::string> page_size;
  std::optional<std::string> policy;
  std::optional<std::string> read_ahead;
  std::vector<std::string> match;
  std::vector<std::string> exclude;
  std::string minimum_size;
  std::string report;
  bool read_only = false;
  bool serve_all = false;
  bool verbose = false;
  bool anyway = false;
};

/// Beside this program, where it was built or installed.
std::string find_library() {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size() - 1);
  const std::string program(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::string folder = program.substr(0, program.find_last_of('/'));
  for (const char* place : {"/../" TIERMAP_LIBRARY_FOLDER "/", "/../lib/", "/"}) {
    if (std::string path = folder + place + library_name; ::access(path.c_str(), R_OK) == 0) {
      return path;
    }
  }
  throw Error(ENOENT, std::string(library_name) + " is not beside " + program +
                          ": install it, or build the target tiermap_preload (not with a sanitizer)");
}

void set_variable(const char* name, const std::string& value) {
  if (!value.empty()) {
    ::setenv(name, value.c_str(), 1);
  }
}

std::string joined(const std::vector<std::string>& lines) {
  return fmt::format("{}", fmt::join(lines, "\n"));
}

/// An option of every cache, under the name that the command line gives it.
void set_engine_option(OptionId id, const char* flag, const std::optional<std::string>& value) {
  if (value) {
    parse_option(option_row(id), *value, flag);
    set_variable(option_row(id).environment.data(), *value);
  }
}

/// Found out before the program runs, whose end would be too late.
void check_report_file(const std::string& path) {
  // A pipe that nobody reads yet (ENXIO) is not waited for.
  const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666));
  if (!file.valid() && errno != ENXIO) {
    throw OptionError("--report=" + quote_value(path) + " cannot be written: " + std::strerror(errno) +
                      ": choose another file");
  }
}

/// A file's place holds wherever the program goes.
std::string report_place(const std::string& report) {
  if (report == "true" || report.empty()) {
    return report.empty() ? "" : "-";
  }
  std::string path = std::filesystem::absolute(report).string();
  check_report_file(path);
  return path;
}

/// A pattern that is this text and nothing else.
std::string pattern_of(const std::string& text) {
  std::string pattern;
  for (const char character : text) {
    const bool special = character == '*' || character == '?' || character == '[';
    pattern += special ? std::string("[") + character + "]" : std::string(1, character);
  }
  return pattern;
}

/// Files are known by their real paths: a pattern with a folder in it holds from the working directory on, as in a
/// shell, unless it begins with / or **.
std::string absolute_pattern(const std::string& pattern) {
  if (pattern.find('/') == std::string::npos || pattern.starts_with('/') || pattern.starts_with("**")) {
    return pattern;
  }
  const std::filesystem::path folder = pattern_of(std::filesystem::current_path().string());
  return (folder / pattern).lexically_normal().string();
}

/// The same files by their real paths, where the folders before the first wild card are reached through a link. What is
/// behind that is not looked up: nobody knows yet what it will mean.
std::optional<std::string> real_pattern(const std::string& pattern) {
  if (!pattern.starts_with('/')) {
    return std::nullopt;
  }
  std::filesystem::path known;
  std::filesystem::path rest;
  for (const std::filesystem::path& part : std::filesystem::path(pattern)) {
    const bool is_text = rest.empty() && part.native().find_first_of("*?[") == std::string::npos;
    (is_text ? known : rest) /= part;
  }
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(known, error);
  if (error || real == known || real.native().find('\n') != std::string::npos) {
    return std::nullopt;
  }
  const std::filesystem::path folder = pattern_of(real.native());
  return rest.empty() ? folder.native() : (folder / rest).native();
}

std::vector<std::string> absolute_patterns(const std::vector<std::string>& patterns) {
  std::vector<std::string> made;
  for (const std::string& pattern : patterns) {
    made.push_back(absolute_pattern(pattern));
    if (std::optional<std::string> real = real_pattern(made.back()); real.has_value()) {
      made.push_back(*std::move(real));
    }
  }
  return made;
}

/// They are handed on as lines. What stands before the program is there where a pattern was forgotten.
void check_patterns(const char* flag, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    if (pattern.empty() || pattern == "--" || pattern.find('\n') != std::string::npos) {
      throw OptionError(std::string(flag) + " " + quote_value(pattern) +
                        " names no file: give a pattern of one line, such as '/data/**'");
    }
  }
}

/// Options that the library reads. What is wrong with them is said here, not in the program's memory.
void set_options(const RunOptions& options) {
  set_engine_option(OptionId::buffer_size, "--buffer", options.buffer);
  set_engine_option(OptionId::page_size, "--page-size", options.page_size);
  set_engine_option(OptionId::policy, "--policy", options.policy);
  set_engine_option(OptionId::read_ahead, "--read-ahead", options.read_ahead);
  for (const OptionReport& report : report_options()) {
    if (report.origin.starts_with("file ")) {
      set_variable(report.environment.c_str(), report.value);
    }
  }
  if (!options.minimum_size.empty()) {
    parse_size(options.minimum_size, "--minimum-size");
  }
  check_patterns("--match", options.match);
  check_patterns("--exclude", options.exclude);
  set_variable(preload::minimum_size_variable, options.minimum_size);
  set_variable(preload::match_variable, joined(absolute_patterns(options.match)));
  set_variable(preload::exclude_variable, joined(absolute_patterns(options.exclude)));
  set_variable(preload::report_variable, report_place(options.report));
  set_variable(preload::process_variable, std::to_string(::getpid()));
  set_variable(preload::verbose_variable, options.verbose ? "1" : "");
  set_variable(preload::read_only_variable, options.read_only ? "1" : "");
  set_variable(preload::serve_all_variable, options.serve_all ? "1" : "");
}

void set_library() {
  const std::string library = find_library();
  if (library.find_first_of(" :") != std::string::npos) {
    throw OptionError(library + " has a space or a colon in its path, which LD_PRELOAD does not take: move it");
  }
  const char* others = std::getenv("LD_PRELOAD");
  set_variable("LD_PRELOAD", others == nullptr || *others == '\0' ? library : library + ":" + others);
}

[[noreturn]] void fail(int code, const std::string& message) {
  std::fputs(("tiermap: " + message + "\n").c_str(), stderr);
  throw ExitCode{code};
}

[[noreturn]] void become(const std::string& path, std::vector<std::string> command) {
  std::vector<char*> words;
  for (std::string& word : command) {
    words.push_back(word.data());
  }
  words.push_back(nullptr);
  std::fflush(nullptr);
  ::execv(path.c_str(), words.data());
  if (errno == ENOEXEC) {  // A script that names no interpreter is the shell's.
    std::string shell = "/bin/sh";
    std::string script = path;
    words.front() = script.data();
    words.insert(words.begin(), shell.data());
    ::execv(shell.c_str(), words.data());
  }
  fail(not_executable, quote_value(path) + " cannot be run: " + std::strerror(errno) + ": name a program");
}

void run(const RunOptions& options) {
  const ProgramKind program = examine_program(options.command.front());
  if (program.path.empty()) {
    const std::string& name = options.command.front();
    const bool missing = program.error_number == ENOENT;
    std::error_code ignored;
    const bool folder = name.find('/') != std::string::npos && std::filesystem::is_directory(name, ignored);
    fail(missing ? not_found : not_executable,
         quote_value(name) + (missing  ? " is not found: check its name and PATH"
                              : folder ? " is a directory: name a program"
                                       : " cannot be run: check its permissions"));
  }
  if (!program.obstacle.empty()) {
    if (!options.anyway) {
      throw OptionError(program.path + " " + program.obstacle +
                        ", so that Tiermap cannot serve it: run it as it is, or with --anyway");
    }
    std::fputs(("tiermap: " + program.path + " " + program.obstacle + ": it runs without Tiermap\n").c_str(), stderr);
    become(program.path, options.command);
  }
  if (program.go && (options.verbose || !options.report.empty())) {
    std::fputs(
        ("tiermap: " + program.path + " is written in Go, and calls the kernel itself: nothing of it is served\n")
            .c_str(),
        stderr);
  }
  set_options(options);
  for (const std::string& line : find_misspelt_variables("TIERMAP_", known_variables())) {
    std::fputs(("tiermap: " + line + "\n").c_str(), stderr);
  }
  set_library();
  become(program.path, options.command);
}

void add_choices(CLI::App& command, RunOptions& options) {
  command
      .add_option("--match", options.match,
                  "Serve files whose real path matches, private mappings of them too; may be given several times. * "
                  "stays within a folder, ** does not; without a slash the file's name counts, and with one, but not "
                  "/ or ** at its beginning, it holds from the working directory on. Links before the first wild "
                  "card are followed. All shared mappings if not given.")
      ->type_name("PATTERN")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--exclude", options.exclude, "Leave files that match to the kernel; may be given several times.")
      ->type_name("PATTERN")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--minimum-size", options.minimum_size, "Leave smaller mappings to the kernel; 1MiB if not given.")
      ->type_name("SIZE");
  command.add_flag("--read-only", options.read_only,
                   "Leave shared mappings that can be written to the kernel: other processes see those at once.");
  command.add_flag(
      "--serve-all", options.serve_all,
      "Serve also what fits in memory: else mappings that are only read and fit in seven eighths of the buffer, all "
      "together (under 128MiB: in what is over 16MiB of it, or in half), are left to the kernel, and the budget is "
      "less by what is mapped of them.");
}

}  // namespace

CLI::App* add_run_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("run", "Run a program that was not made for Tiermap, and serve the files that it maps.");
  const auto options = std::make_shared<RunOptions>();
  command->add_option("COMMAND", options->command, "The program and its arguments, after --.")->required();
  command->add_option("--buffer", options->buffer, "Memory for pages: TIERMAP_BUFFER_SIZE.")->type_name("SIZE");
  command->add_option("--page-size", options->page_size, "TIERMAP_PAGE_SIZE.")->type_name("SIZE");
  command->add_option("--policy", options->policy, "TIERMAP_POLICY.")->type_name("NAME");
  command->add_option("--read-ahead", options->read_ahead, "TIERMAP_READ_AHEAD.")->type_name("SIZE");
  add_choices(*command, *options);
  // A flag, so that the word behind it is the program; without a value its text is "true".
  command->add_flag("--report", options->report,
                    "At its end, say what the program did, on standard error or appended to FILE (--report=FILE).");
  command->add_flag("--verbose", options->verbose, "Say which mappings are served, and why others are not.");
  command->add_flag("--anyway", options->anyway, "Run a program that cannot be served, without Tiermap.");
  command->callback([options] { run(*options); });
  return command;
}

}  // namespace tiermap
