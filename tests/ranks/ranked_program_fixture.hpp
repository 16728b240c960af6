// Programs as ranks: started by MPI's own mpiexec, or as other launchers start them, with a memory server to meet at.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "apps/program_fixture.hpp"
#include "cluster/server_process.hpp"

namespace tiermap::test {

class RankedProgramTest : public ProgramTest {
 protected:
  RankedProgramTest();

  /// "" where there is none: Debian's names for those of MPICH and of Open MPI.
  static std::string mpiexec(const std::string& implementation = "mpich");
  /// mpiexec -n `ranks` program arguments. Budgets are a rank's.
  Outcome run_ranks(int ranks, const std::string& program, const std::vector<std::string>& arguments) const;
  pid_t start_ranks(int ranks, const std::string& program, const std::vector<std::string>& arguments) const;
  /// Of a program that start_ranks() started and that goes on for long: once it is at work.
  pid_t process_of_rank(const std::string& program, int rank) const;
  /// The same without mpiexec: a shell script that starts so many processes with these two variables. Its exit code is
  /// the last process's.
  Outcome run_with_variables(int ranks, const std::string& rank_variable, const std::string& ranks_variable,
                             const std::string& program, const std::vector<std::string>& arguments) const;
  static std::string bytes_of(const std::string& file);

  ServerProcess server;
};

/// Under MPICH's mpiexec, with two memory servers where the test wants both.
class TwoServersTest : public RankedProgramTest {
 protected:
  void SetUp() override;
  void two_servers();
  /// Of ranks that end well.
  nlohmann::json report_of_ranks(int ranks, const std::string& program,
                                 const std::vector<std::string>& arguments) const;
  static bool is_built(const std::string& program);

 private:
  const ServerProcess second_;
};

}  // namespace tiermap::test
