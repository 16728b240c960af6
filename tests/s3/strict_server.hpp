// tests/s3/strict_server.py for as long as the object lives.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "store/temporary_directory.hpp"

namespace tiermap {

/// The keys it takes are in the environment while it lives, and nothing else that could decide where requests go.
class StrictServer {
 public:
  StrictServer() {
    int commands[2] = {-1, -1};
    int answers[2] = {-1, -1};
    if (::pipe(commands) != 0 || ::pipe(answers) != 0) {
      throw std::runtime_error("no pipes for the server");
    }
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(commands[0], STDIN_FILENO);
      ::dup2(answers[1], STDOUT_FILENO);
      for (const int end : {commands[0], commands[1], answers[0], answers[1]}) {
        ::close(end);
      }
      const std::string script = std::string(TIERMAP_SOURCE_FOLDER) + "/tests/s3/strict_server.py";
      ::execlp("python3", "python3", script.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(commands[0]);
    ::close(answers[1]);
    commands_ = ::fdopen(commands[1], "w");
    answers_ = ::fdopen(answers[0], "r");
    port_ = line();
    clear_environment();
    ::setenv("AWS_ACCESS_KEY_ID", "AKIDTIERMAP", 1);
    ::setenv("AWS_SECRET_ACCESS_KEY", "wJalr/XUtn+FEMI=K7MDENG", 1);
  }
  ~StrictServer() {
    std::fclose(commands_);
    std::fclose(answers_);
    ::waitpid(child_, nullptr, 0);
  }
  StrictServer(const StrictServer&) = delete;
  StrictServer& operator=(const StrictServer&) = delete;

  static void clear_environment() {
    for (const char* name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE",
                             "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
                             "AWS_ENDPOINT_URL_S3", "http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}) {
      ::unsetenv(name);
    }
    ::setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials", 1);
    ::setenv("AWS_CONFIG_FILE", "/nowhere/config", 1);
  }

  bool runs() const { return !port_.empty(); }
  /// Quick to give up, unless `options` say otherwise.
  std::string url(const std::string& key, const std::string& options = "", const std::string& bucket = "bucket") const {
    return "s3://" + bucket + "/" + key + "?endpoint=http://127.0.0.1:" + port_ + "&region=eu-test-1" +
           (options.find("pause=") == std::string::npos ? "&pause=0.001" : "") + (options.empty() ? "" : "&") + options;
  }
  const std::string& port() const { return port_; }

  std::string ask(const std::string& command) {
    std::fprintf(commands_, "%s\n", command.c_str());
    std::fflush(commands_);
    return line();
  }
  void fault(const std::string& operation, const std::string& kind, int times = 1) {
    EXPECT_EQ(ask("fault " + operation + " " + kind + " " + std::to_string(times)), "ok");
  }
  /// Of operations since it was asked last.
  nlohmann::json counts() { return nlohmann::json::parse(ask("counts")); }
  void load(const std::string& key, const std::string& content, const std::string& bucket = "bucket") {
    write_file(directory_ / "file", content);
    EXPECT_EQ(ask("load " + bucket + " " + key + " " + directory_ / "file"), "ok");
  }
  /// "(none)" where there is no such object.
  std::string saved(const std::string& key) {
    const std::string said = ask("save bucket " + key + " " + directory_ / "file");
    return said == "ok" ? read_file(directory_ / "file") : "(none)";
  }

 private:
  std::string line() {
    char* text = nullptr;
    std::size_t room = 0;
    const ssize_t got = ::getline(&text, &room, answers_);
    std::string said(text == nullptr ? "" : text, got > 0 ? static_cast<std::size_t>(got) - 1 : 0);
    std::free(text);
    return said;
  }

  const TemporaryDirectory directory_;
  pid_t child_ = -1;
  std::FILE* commands_ = nullptr;
  std::FILE* answers_ = nullptr;
  std::string port_;
};

/// Numbers that differ from place to place.
inline std::string patterned(std::size_t bytes, unsigned seed = 1) {
  std::string text(bytes, '\0');
  std::uint64_t word = seed * 2654435761U;
  for (std::size_t at = 0; at < bytes; at += sizeof word) {
    word = word * 6364136223846793005U + 1442695040888963407U;
    std::memcpy(text.data() + at, &word, std::min(sizeof word, bytes - at));
  }
  return text;
}

}  // namespace tiermap
