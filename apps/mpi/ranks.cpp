#include "mpi/ranks.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <thread>

#include "command_line/process_usage.hpp"
#include "command_line/program.hpp"
#include "tiermap/job.hpp"

namespace tiermap::mpi {
namespace {

std::uint64_t largest(std::uint64_t mine) {
  std::uint64_t all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_MAX, MPI_COMM_WORLD);
  return all;
}

int work_and_print(const std::function<nlohmann::ordered_json(Ranks&)>& work) {
  Ranks ranks;
  nlohmann::ordered_json report = work(ranks);
  const ProcessUsage usage = read_process_usage();
  report["ranks"] = ranks.ranks;
  report["messages"] = sum(ranks.messages);
  report["sent_bytes"] = sum(ranks.sent_bytes);
  report["user_seconds"] = sum(usage.user_seconds);
  report["system_seconds"] = sum(usage.system_seconds);
  report["peak_rss_bytes"] = largest(peak_resident_bytes());
  if (ranks.rank == 0) {
    std::puts(report.dump().c_str());
  }
  return 0;
}

}  // namespace

Ranks::Ranks() {
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
}

std::vector<double> gather(Ranks& ranks, const std::vector<double>& mine) {
  const int count = static_cast<int>(mine.size());
  std::vector<int> counts(static_cast<std::size_t>(ranks.ranks));
  MPI_Gather(&count, 1, MPI_INT, counts.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> places;
  int all = 0;
  for (const int here : counts) {
    places.push_back(all);
    all += here;
  }
  std::vector<double> gathered(ranks.rank == 0 ? static_cast<std::size_t>(all) : 0);
  MPI_Gatherv(mine.data(), count, MPI_DOUBLE, gathered.data(), counts.data(), places.data(), MPI_DOUBLE, 0,
              MPI_COMM_WORLD);
  ranks.count_message(0, sizeof(count) + mine.size() * sizeof(double));
  return gathered;
}

std::uint64_t sum(std::uint64_t mine) {
  std::uint64_t all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

double sum(double mine) {
  double all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return all;
}

int run(const std::string& name, CLI::App& app, int argc, char** argv,
        const std::function<nlohmann::ordered_json(Ranks&)>& work) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_first = launched_rank().rank == 0;  // One of all tells.
    return is_first ? exit_code_of(name, app, error) : error.get_exit_code() == 0 ? 0 : 2;
  }
  MPI_Init(&argc, &argv);
  const int code = exit_code_of(name, [&] { return work_and_print(work); });
  if (code != 0) {
    // With the abort mpiexec ends, and what it has not passed on by then of what was said is lost.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    MPI_Abort(MPI_COMM_WORLD, code);  // The others wait for this one.
  }
  MPI_Finalize();
  return code;
}

}  // namespace tiermap::mpi
