// moto's S3 server, of the environment that scripts/moto.sh makes, with one empty bucket, `bucket`.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "s3/strict_server.hpp"

namespace tiermap {

class MotoServer {
 public:
  static bool is_installed() { return std::filesystem::exists(environment() + "/bin/moto_server"); }

  MotoServer() {
    StrictServer::clear_environment();
    ::setenv("AWS_ACCESS_KEY_ID", "any", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "thing", 1);
    int said[2] = {-1, -1};
    if (::pipe(said) != 0) {
      throw std::runtime_error("no pipe for the server");
    }
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(said[1], STDOUT_FILENO);
      ::dup2(said[1], STDERR_FILENO);
      ::close(said[0]);
      ::close(said[1]);
      const std::string program = environment() + "/bin/moto_server";
      ::execl(program.c_str(), program.c_str(), "-H", "127.0.0.1", "-p", "0", nullptr);
      ::_exit(127);
    }
    ::close(said[1]);
    said_ = ::fdopen(said[0], "r");
    find_port();
    const std::string make_bucket =
        environment() + "/bin/python -c 'import urllib.request as r; r.urlopen(r.Request(\"http://127.0.0.1:" + port_ +
        "/bucket\", method=\"PUT\"))'";
    runs_ = !port_.empty() && std::system(make_bucket.c_str()) == 0;  // NOLINT(cert-env33-c): of a test alone.
  }
  ~MotoServer() {
    ::kill(child_, SIGTERM);
    ::waitpid(child_, nullptr, 0);
    std::fclose(said_);
  }
  MotoServer(const MotoServer&) = delete;
  MotoServer& operator=(const MotoServer&) = delete;

  bool runs() const { return runs_; }
  std::string url(const std::string& key, const std::string& options = "") const {
    return "s3://bucket/" + key + "?endpoint=http://127.0.0.1:" + port_ + (options.empty() ? "" : "&") + options;
  }

 private:
  static std::string environment() { return std::string(TIERMAP_SOURCE_FOLDER) + "/build/moto"; }

  void find_port() {
    char* line = nullptr;
    std::size_t room = 0;
    const std::string before = "http://127.0.0.1:";
    while (port_.empty() && ::getline(&line, &room, said_) > 0) {
      const std::string text(line);
      if (const std::size_t at = text.find(before); at != std::string::npos) {
        const std::size_t digits = at + before.size();
        port_ = text.substr(digits, text.find_first_not_of("0123456789", digits) - digits);
      }
    }
    std::free(line);
  }

  pid_t child_ = -1;
  std::FILE* said_ = nullptr;
  std::string port_;
  bool runs_ = false;
};

}  // namespace tiermap
