// Runs a command as it is, and through `tiermap run`.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "platform/userfaultfd.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {

struct ProgramResult {
  int exit_code = -1;
  std::string output;
  std::string errors;
  std::string report;  ///< Of those run through `tiermap run`.
};

inline std::string contents_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A report that says that something was served.
inline bool tells_of_mappings(const std::string& report) {
  return std::regex_search(report, std::regex(": [1-9][0-9]* mappings? served"));
}

/// In a folder of its own. Commands are a shell's; one that hangs is ended, and has exit code 124.
class ProgramRuns {
 public:
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

  ProgramResult plain(const std::string& command) const { return run(command); }

  /// `command` is one program and its arguments.
  ProgramResult served(const std::string& command, const std::string& options = default_options) const {
    ProgramResult result = run(tiermap(options) + " -- " + command);
    result.report = contents_of(report());
    return result;
  }
  std::string tiermap(const std::string& options = default_options) const {
    std::remove(report().c_str());
    return std::string(TIERMAP_BINARY_FOLDER) + "/tiermap run --report=" + report() + " " + options;
  }
  static constexpr const char* default_options = "--serve-all --buffer 16MiB --minimum-size 64KiB --match '**'";

 private:
  std::string report() const { return path("report"); }

  ProgramResult run(const std::string& command) const {
    const std::string script = path("script");
    std::ofstream(script) << "cd " << folder_.path() << "\nexec " << command << "\n";
    const int status = std::system(
        ("exec timeout -k 5 60 sh " + script + " >" + path("output") + " 2>" + path("errors") + " </dev/null").c_str());
    return {.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
            .output = contents_of(path("output")),
            .errors = contents_of(path("errors")),
            .report = ""};
  }

  TemporaryDirectory folder_;
};

/// For a fixture's SetUp().
inline void skip_where_nothing_is_served() {
  const UserfaultfdProbe probe = probe_userfaultfd();
  if (!probe.available || probe.user_mode_only) {
    GTEST_SKIP() << "programs are served by userfaultfd messages, which this machine refuses";
  }
}

inline bool has_program(const std::string& name) {
  return std::system(("command -v " + name + " >/dev/null 2>&1").c_str()) == 0;
}

}  // namespace tiermap
