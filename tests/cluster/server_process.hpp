// Servers and clients that are processes of their own, to be killed.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX has it so.

namespace tiermap {

/// A program of this build, from its start to its end. Killed when it is still there at the end of its block.
class ChildProcess {
 public:
  /// The first argument is the program's path; a name without '/' is one of this build.
  explicit ChildProcess(std::vector<std::string> arguments) {
    if (arguments[0].find('/') == std::string::npos) {
      arguments[0] = std::string(TIERMAP_BINARY_FOLDER) + "/" + arguments[0];
    }
    int out[2] = {-1, -1};
    int errors[2] = {-1, -1};
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(errors, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
    std::vector<char*> words;
    for (std::string& argument : arguments) {
      words.push_back(argument.data());
    }
    words.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ), 0) << arguments[0];
    posix_spawn_file_actions_destroy(&actions);
    ::close(out[1]);
    ::close(errors[1]);
    output_ = out[0];
    errors_ = errors[0];
  }
  ~ChildProcess() {
    if (pid_ > 0) {
      signal(SIGKILL);
      wait();
    }
    ::close(output_);
    ::close(errors_);
  }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// After SIGSTOP returns when all its threads stand still: until then they answer. False where it has ended: to
  /// kill() its number, -1, would be every process of this user.
  bool signal(int number) const {
    if (pid_ <= 0 || ::kill(pid_, number) != 0) {
      return false;
    }
    if (number == SIGSTOP) {
      siginfo_t stopped{};
      ::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WEXITED | WNOWAIT);
    }
    return true;
  }
  /// The exit code, or 128 plus the signal.
  int wait() {
    if (pid_ > 0) {
      ::waitpid(pid_, &status_, 0);
      pid_ = -1;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }
  bool ended() {
    if (pid_ > 0 && ::waitpid(pid_, &status_, WNOHANG) == pid_) {
      pid_ = -1;
    }
    return pid_ < 0;
  }
  pid_t pid() const { return pid_; }
  std::string line() const { return read_until(output_, '\n'); }
  std::string output() const { return read_until(output_, '\0'); }
  std::string errors() const { return read_until(errors_, '\0'); }

 private:
  static std::string read_until(int descriptor, char last) {
    std::string text;
    char character = 0;
    while (::read(descriptor, &character, 1) == 1 && character != last) {
      text += character;
    }
    return text;
  }

  pid_t pid_ = -1;
  int status_ = 0;
  int output_ = -1;
  int errors_ = -1;
};

/// `tiermap serve` on a port of its own choice.
class ServerProcess : public ChildProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& options = {"--memory", "64MiB"})
      : ChildProcess(command(options)) {
    const std::string said = line();
    const std::string before = "listening on ";
    address = said.starts_with(before) ? said.substr(before.size(), said.find(',') - before.size()) : "";
    EXPECT_NE(address, "") << said;
  }
  std::string url(const std::string& name, const std::string& query = "") const {
    return "remote://" + address + "/" + name + query;
  }
  std::string address;

 private:
  static std::vector<std::string> command(const std::vector<std::string>& options) {
    std::vector<std::string> all = {"tiermap", "serve", "--listen", "127.0.0.1:0"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
};

}  // namespace tiermap
