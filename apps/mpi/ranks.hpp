// What both programs need of MPI beside its own calls. A call that fails ends all ranks, as MPI does by itself.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace tiermap::mpi {

/// Which one this process is, and what it has sent to others: bodies of messages, without what MPI puts around them.
struct Ranks {
  Ranks();
  /// To be called with whatever goes out.
  void count_message(int to, std::uint64_t bytes) {
    messages += to != rank ? 1 : 0;
    sent_bytes += to != rank ? bytes : 0;
  }

  int rank = 0;
  int ranks = 1;
  std::uint64_t messages = 0;
  std::uint64_t sent_bytes = 0;
};

/// Everything of every rank, in their order, on rank 0; elsewhere nothing.
std::vector<double> gather(Ranks& ranks, const std::vector<double>& mine);
/// The sum of all ranks' numbers, on every rank.
std::uint64_t sum(std::uint64_t mine);
double sum(double mine);

/// The frame of main(): parses, works between MPI_Init and MPI_Finalize, and has rank 0 print what `work` returns as
/// JSON, beside what all ranks together sent and used. Returns the exit code, as the other programs have it.
int run(const std::string& name, CLI::App& app, int argc, char** argv,
        const std::function<nlohmann::ordered_json(Ranks&)>& work);

}  // namespace tiermap::mpi
