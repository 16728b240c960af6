// Runs the built `tiermap` as a user would.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace tiermap {

struct CommandResult {
  int exit_code = -1;  ///< Negative if a signal ended it.
  std::string output;
  std::string errors;
};

/// Variables that the command is to see beside PATH and the like; no TIERMAP_ variable of the test's own gets through.
using Variables = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] inline void become_command(const std::vector<std::string>& arguments, const Variables& variables) {
  std::vector<std::string> inherited;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.starts_with("TIERMAP_")) {
      inherited.push_back(text.substr(0, text.find('=')));
    }
  }
  for (const std::string& variable : inherited) {
    ::unsetenv(variable.c_str());
  }
  for (const auto& [name, value] : variables) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  // Outlives exec: a command that hangs is ended by a signal, and fails its test by name.
  ::alarm(120);
  const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
  std::vector<char*> words = {const_cast<char*>("tiermap")};
  for (const std::string& argument : arguments) {
    words.push_back(const_cast<char*>(argument.c_str()));
  }
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  ::_exit(127);
}

inline int exit_code_of(pid_t process) {
  int status = 0;
  ::waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/// The exit code where what is to be done before the command failed.
constexpr int not_prepared = 126;

/// Standard input is empty, standard output and standard error are pipes. `prepare` runs in the new process before it
/// becomes the command, and says whether it worked.
inline CommandResult run_tiermap(const std::vector<std::string>& arguments, const Variables& variables = {},
                                 const std::function<bool()>& prepare = {}) {
  int output[2];
  int errors[2];
  CommandResult result;
  if (::pipe(output) != 0 || ::pipe(errors) != 0) {
    return result;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    ::dup2(output[1], STDOUT_FILENO);
    ::dup2(errors[1], STDERR_FILENO);
    if (prepare && !prepare()) {
      ::_exit(not_prepared);
    }
    become_command(arguments, variables);
  }
  ::close(output[1]);
  ::close(errors[1]);
  pollfd inputs[2] = {{output[0], POLLIN, 0}, {errors[0], POLLIN, 0}};
  std::string* texts[2] = {&result.output, &result.errors};
  for (int open = 2; open > 0;) {
    ::poll(inputs, 2, -1);
    for (int input = 0; input < 2; ++input) {
      if (inputs[input].revents == 0) {
        continue;
      }
      char buffer[4096];
      const ssize_t got = ::read(inputs[input].fd, buffer, sizeof(buffer));
      if (got > 0) {
        texts[input]->append(buffer, static_cast<std::size_t>(got));
      } else {
        ::close(inputs[input].fd);
        inputs[input].fd = -1;
        --open;
      }
    }
  }
  result.exit_code = exit_code_of(child);
  return result;
}

/// Whether `text` is exactly one line.
inline bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1;
}

}  // namespace tiermap
