#include "ranks/ranked_program_fixture.hpp"

#include <signal.h>

#include <fstream>
#include <iterator>
#include <thread>

namespace tiermap::test {
namespace {

std::string quoted(const std::string& word) {
  return "'" + word + "'";
}

}  // namespace

RankedProgramTest::RankedProgramTest() {
  set_environment("TIERMAP_SERVERS", server.address);
  set_environment("UCX_TLS", "tcp,self");  // As between nodes.
  longest_run_seconds = 120;
}

std::string RankedProgramTest::mpiexec(const std::string& implementation) {
  const std::string path = "/usr/bin/mpiexec." + implementation;
  return std::filesystem::exists(path) ? path : "";
}

pid_t RankedProgramTest::start_ranks(int ranks, const std::string& program,
                                     const std::vector<std::string>& arguments) const {
  std::vector<std::string> all = {"-n", std::to_string(ranks), std::string(TIERMAP_BINARY_FOLDER) + "/" + program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return start(mpiexec(), all);
}

Outcome RankedProgramTest::run_ranks(int ranks, const std::string& program,
                                     const std::vector<std::string>& arguments) const {
  Outcome outcome = outcome_of(start_ranks(ranks, program, arguments));
  // MPICH's mpiexec itself is ended by it now and then where ranks end at once.
  constexpr int by_broken_pipe = 128 + SIGPIPE;
  if (outcome.exit_code == by_broken_pipe) {
    outcome = outcome_of(start_ranks(ranks, program, arguments));
  }
  return outcome;
}

pid_t RankedProgramTest::process_of_rank(const std::string& program, int rank) const {
  const std::string folder = "TMPDIR=" + path("work") + std::string(1, '\0');
  const std::string number = "PMI_RANK=" + std::to_string(rank) + std::string(1, '\0');
  while (true) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string environment = bytes_of(entry.path() / "environ");
      if (environment.find(folder) != std::string::npos && environment.find(number) != std::string::npos &&
          bytes_of(entry.path() / "cmdline").find("/" + program) != std::string::npos) {
        return static_cast<pid_t>(std::stol(entry.path().filename().string()));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Outcome RankedProgramTest::run_with_variables(int ranks, const std::string& rank_variable,
                                              const std::string& ranks_variable, const std::string& program,
                                              const std::vector<std::string>& arguments) const {
  std::string command = quoted(std::string(TIERMAP_BINARY_FOLDER) + "/" + program);
  for (const std::string& argument : arguments) {
    command += " " + quoted(argument);
  }
  const std::string script = "export " + ranks_variable + "=" + std::to_string(ranks) + "\nfor rank in $(seq 0 " +
                             std::to_string(ranks - 1) + "); do " + rank_variable + "=$rank " + command +
                             " & last=$!; done\nwait $last; code=$?\nwait\nexit $code\n";
  return run("/bin/sh", {"-c", script});
}

std::string RankedProgramTest::bytes_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void TwoServersTest::SetUp() {
  if (mpiexec().empty()) {
    GTEST_SKIP() << "mpich is not installed";
  }
}

void TwoServersTest::two_servers() {
  set_environment("TIERMAP_SERVERS", server.address + "," + second_.address);
}

nlohmann::json TwoServersTest::report_of_ranks(int ranks, const std::string& program,
                                               const std::vector<std::string>& arguments) const {
  const Outcome outcome = run_ranks(ranks, program, arguments);
  EXPECT_EQ(outcome.exit_code, 0) << ranks << " ranks: " << outcome.errors;
  EXPECT_EQ(outcome.errors, "") << ranks << " ranks";
  return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
}

bool TwoServersTest::is_built(const std::string& program) {
  return std::filesystem::exists(std::string(TIERMAP_BINARY_FOLDER) + "/" + program);
}

}  // namespace tiermap::test
