// What the steps of a job cost, by so many ranks, each a process: a message, a barrier, an acquire, a release, and what
// all ranks read, each by itself and together. With the processor time that the servers take for it, if their processes
// are named. docs/scale.md reckons with this.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "measure.hpp"
#include "tiermap/job.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap::bench {
namespace {

struct CostArguments {
  std::string servers;
  std::uint32_t ranks = 2;
  std::uint64_t rounds = 5000;
  std::uint64_t mebibytes = 64;
  std::vector<int> server_processes;
};

/// Of all threads of these processes.
double processor_seconds(const std::vector<int>& processes) {
  std::uint64_t ticks = 0;
  for (const int process : processes) {
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string skipped;
    for (int field = 0; field < 11; ++field) {
      fields >> skipped;
    }
    std::uint64_t user = 0;
    std::uint64_t system = 0;
    fields >> user >> system;
    ticks += user + system;
  }
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

class Costs {
 public:
  explicit Costs(const CostArguments& arguments) : arguments_(arguments) {}

  /// Microseconds, and the servers' of processor time, of one of `count` steps that `action` takes.
  template <typename Action>
  void measure(const char* name, std::uint64_t count, Action&& action) {
    const double processor = processor_seconds(arguments_.server_processes);
    const double started = now_seconds();
    action();
    const double each = 1e6 / static_cast<double>(count);
    report_[std::string(name) + "_microseconds"] = (now_seconds() - started) * each;
    if (!arguments_.server_processes.empty()) {
      report_[std::string(name) + "_server_cpu_microseconds"] =
          (processor_seconds(arguments_.server_processes) - processor) * each;
    }
  }
  nlohmann::json& report() { return report_; }

 private:
  const CostArguments& arguments_;
  nlohmann::json report_ = {{"program", "shared-costs"}};
};

/// Changes an element in each block.
void change_all(SharedVector<std::uint64_t>& vector, std::uint64_t block_elements) {
  for (std::uint64_t index = 0; index < vector.size(); index += block_elements) {
    vector[index] = 7;
  }
}

std::uint64_t sum_of_all(Job& job, std::uint64_t own) {
  std::uint64_t sum = 0;
  for (const std::vector<std::byte>& bytes : job.gather(std::as_bytes(std::span(&own, 1)))) {
    std::uint64_t one = 0;
    std::memcpy(&one, bytes.data(), sizeof(one));
    sum += one;
  }
  return sum;
}

/// All ranks read all of it, which none of them has: what it takes until the last has it, and what homes and ranks
/// sent, or nodes had (TIERMAP_NODE_CACHE).
template <typename Read>
void read_by_all(const char* name, Job& job, SharedVector<std::uint64_t>& vector, Costs& costs, Read&& read) {
  for (const Phase phase : {Phase::read_only, Phase::shared, Phase::read_only}) {
    vector.set_phase(phase);  // The end of the read-only one drops all pages.
  }
  const SharedStatistics before = vector.statistics();
  const auto all = [&] {
    std::uint64_t sum = 0;
    read().for_each([&](const std::uint64_t& element) { sum += element; });
    job.fetch_add("sum", sum);
    job.barrier();
  };
  job.rank() == 0 ? costs.measure(name, 1, all) : all();
  const SharedStatistics after = vector.statistics();
  const std::uint64_t fetched = sum_of_all(job, after.fetched_bytes - before.fetched_bytes);
  const std::uint64_t pulled = sum_of_all(job, after.pulled_bytes - before.pulled_bytes);
  const std::uint64_t kept = sum_of_all(job, after.node_bytes - before.node_bytes);
  costs.report()[std::string(name) + "_bytes_from_homes"] = fetched;
  costs.report()[std::string(name) + "_bytes_from_nodes"] = kept;
  costs.report()[std::string(name) + "_bytes_from_ranks"] = pulled;
  vector.set_phase(Phase::shared);
}

void rank_of_job(const CostArguments& arguments, std::uint32_t rank) {
  constexpr std::uint64_t page_bytes = 64 << 10;
  constexpr std::uint64_t block_bytes = 4 << 10;
  JobOptions options;
  options.rank = rank;
  options.ranks = arguments.ranks;
  options.servers = arguments.servers;
  Job job(options);
  SharedVectorOptions shared;
  shared.budget_bytes = 4 * (arguments.mebibytes << 20);
  shared.page_size_bytes = page_bytes;
  shared.read_ahead_bytes = 0;
  const std::uint64_t bytes = arguments.mebibytes << 20;
  auto vector = SharedVector<std::uint64_t>::create(job, "costs", bytes / sizeof(std::uint64_t), shared);
  const bool first = rank == 0;
  Costs costs(arguments);
  job.barrier();
  if (first) {
    costs.measure("message", arguments.rounds, [&] {
      for (std::uint64_t round = 0; round < arguments.rounds; ++round) {
        job.fetch_add("counter", 1);
      }
    });
  }
  job.barrier();
  const auto barriers = [&] {
    for (std::uint64_t round = 0; round < arguments.rounds; ++round) {
      job.barrier();
    }
  };
  first ? costs.measure("barrier", arguments.rounds, barriers) : barriers();
  if (first) {
    costs.measure("quiet_acquire", arguments.rounds, [&] {
      for (std::uint64_t round = 0; round < arguments.rounds; ++round) {
        vector.acquire();
      }
    });
  }
  job.barrier();
  if (rank == arguments.ranks - 1) {
    change_all(vector, block_bytes / sizeof(std::uint64_t));
    const double started = now_seconds();
    vector.release();
    job.fetch_add("changed", static_cast<std::uint64_t>((now_seconds() - started) * 1e9) + 1);
  }
  if (first) {
    std::uint64_t nanoseconds = 0;
    while ((nanoseconds = job.fetch_add("changed", 0)) == 0) {
      ::usleep(1000);
    }
    costs.report()["release_microseconds_a_block"] =
        static_cast<double>(nanoseconds) / 1e3 / static_cast<double>(bytes / block_bytes);
    costs.measure("acquire_of_all_blocks", 1, [&] { vector.acquire(); });
  }
  job.barrier();
  read_by_all("read_by_each", job, vector, costs, [&] { return vector.read(vector.all()); });
  read_by_all("read_together", job, vector, costs, [&] { return vector.read_together(vector.all()); });
  if (first) {
    costs.report().update({{"ranks", arguments.ranks}, {"blocks", bytes / block_bytes}, {"bytes", bytes}});
    std::cout << costs.report().dump() << "\n";
  }
  job.barrier();
  vector.close();
  job.end();
}

int run(int argc, char** argv) {
  CLI::App app("What the steps of a job cost");
  CostArguments arguments;
  app.add_option("--servers", arguments.servers, "HOST:PORT, or several with commas between")->required();
  app.add_option("--ranks", arguments.ranks, "Processes")->check(CLI::Range(1, 1024));
  app.add_option("--rounds", arguments.rounds, "Of each step")->check(CLI::Range(1, 100000000));
  app.add_option("--mebibytes", arguments.mebibytes, "Of the vector")->check(CLI::Range(1, 1 << 20));
  app.add_option("--server-process", arguments.server_processes, "Process ids of the servers");
  CLI11_PARSE(app, argc, argv);
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < arguments.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        rank_of_job(arguments, rank);
        std::cout.flush();
        ::_exit(0);
      } catch (const std::exception& error) {
        std::cerr << "shared-costs: rank " << rank << ": " << error.what() << "\n";
        ::_exit(1);
      }
    }
    children.push_back(child);
  }
  bool failed = false;
  for (const pid_t child : children) {
    int status = 0;
    failed = ::waitpid(child, &status, 0) != child || status != 0 || failed;
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tiermap::bench

int main(int argc, char** argv) {
  return tiermap::bench::run(argc, argv);
}
