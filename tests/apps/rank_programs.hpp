// Programs as several ranks, started by the machine's mpiexec, on memory servers of this build.
#pragma once

#include <memory>
#include <sstream>

#include "apps/program_fixture.hpp"
#include "cluster/server_process.hpp"

namespace tiermap::test {

/// Skips where there is no mpiexec.
class RankProgramTest : public ProgramTest {
 protected:
  void SetUp() override {
    std::istringstream folders(::getenv("PATH") == nullptr ? "" : ::getenv("PATH"));
    for (std::string folder; mpiexec_.empty() && std::getline(folders, folder, ':');) {
      const std::string path = folder + "/mpiexec";
      mpiexec_ = ::access(path.c_str(), X_OK) == 0 ? path : "";
    }
    if (mpiexec_.empty()) {
      GTEST_SKIP() << "there is no mpiexec: install mpich";
    }
    set_environment("UCX_TLS", "tcp,self");  // As between nodes.
  }

  /// So many `tiermap serve`, which the programs find from now on.
  void start_servers(std::size_t count) {
    std::string addresses;
    for (std::size_t index = 0; index < count; ++index) {
      servers_.push_back(std::make_unique<ServerProcess>(std::vector<std::string>{"--memory", "128MiB"}));
      addresses += (index == 0 ? "" : ",") + servers_.back()->address;
    }
    set_environment("TIERMAP_SERVERS", addresses);
  }

  Outcome run_ranks(int ranks, const std::string& program, const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"-n", std::to_string(ranks), std::string(TIERMAP_BINARY_FOLDER) + "/" + program};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return run(mpiexec_, all);
  }
  /// The report of ranks that end well.
  nlohmann::json report_of_ranks(int ranks, const std::string& program,
                                 const std::vector<std::string>& arguments) const {
    const Outcome outcome = run_ranks(ranks, program, arguments);
    EXPECT_EQ(outcome.exit_code, 0) << ranks << " ranks: " << outcome.errors;
    EXPECT_EQ(outcome.errors, "") << ranks << " ranks";
    return outcome.exit_code == 0 ? outcome.json() : nlohmann::json::object();
  }
  static bool is_built(const std::string& program) {
    return ::access((std::string(TIERMAP_BINARY_FOLDER) + "/" + program).c_str(), X_OK) == 0;
  }

 private:
  std::string mpiexec_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
};

}  // namespace tiermap::test
