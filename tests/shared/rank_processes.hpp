// Ranks that are processes: forked by the test, each with a Job of its own, on servers that are processes too.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cluster/server_process.hpp"
#include "tiermap/error.hpp"
#include "tiermap/job.hpp"

namespace tiermap {

/// So that ranks seem to be on as many nodes, up to eight: names of one address, which the resolver knows.
inline std::string host_of_node(std::uint32_t node) {
  constexpr std::array<const char*, 8> names = {"127.0.0.1",  "127.1",  "127.0.1", "2130706433",
                                                "0x7f000001", "0x7f.1", "0177.1",  "0x7f.0.1"};
  return names.at(node);
}

/// So many `tiermap serve`.
class Servers {
 public:
  explicit Servers(std::size_t count = 1, const std::vector<std::string>& options = {"--memory", "256MiB"}) {
    ::setenv("UCX_TLS", "tcp,self", 1);  // As between nodes.
    for (std::size_t index = 0; index < count; ++index) {
      processes.push_back(std::make_unique<ServerProcess>(options));
      addresses += (index == 0 ? "" : ",") + processes.back()->address;
    }
  }
  JobOptions job(std::uint32_t rank, std::uint32_t ranks) const {
    JobOptions options;
    options.rank = rank;
    options.ranks = ranks;
    options.servers = addresses;
    return options;
  }
  /// So that ranks and servers seem to be on nodes, each in turn: a server is near the ranks of its node.
  JobOptions job_on_nodes(std::uint32_t rank, std::uint32_t ranks, std::uint32_t nodes) const {
    JobOptions options = job(rank, ranks);
    options.host = host_of_node(rank % nodes);
    options.servers.clear();
    for (std::uint32_t server = 0; server < processes.size(); ++server) {
      const std::string& address = processes[server]->address;
      options.servers +=
          (server == 0 ? "" : ",") + std::string(host_of_node(server)) + address.substr(address.find(':'));
    }
    return options;
  }

  std::vector<std::unique_ptr<ServerProcess>> processes;
  std::string addresses;
};

/// Forked; the parent must have no threads. Whoever is still there at the end of the block is killed.
class RankProcesses {
 public:
  /// Each runs `body(rank)`, and ends with 0 if no expectation failed there and nothing was thrown.
  RankProcesses(std::uint32_t ranks, const std::function<void(std::uint32_t)>& body) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::signal(SIGBUS, SIG_DFL);  // Which sanitizers take for themselves.
        ::_exit(run(rank, body));
      }
      children_.push_back(child);
    }
  }
  ~RankProcesses() {
    for (const pid_t child : children_) {
      if (child > 0) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
      }
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  /// False where it has been waited for: to kill() its number, -1, would be every process of this user.
  bool signal(std::uint32_t rank, int number) const {
    return children_[rank] > 0 && ::kill(children_[rank], number) == 0;
  }
  /// The exit code, or 128 plus the signal; -1 if it does not end within a minute.
  int wait(std::uint32_t rank) {
    for (int turn = 0; turn < 60'000; ++turn) {
      int status = 0;
      if (::waitpid(children_[rank], &status, WNOHANG) == children_[rank]) {
        children_[rank] = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return -1;
  }
  void expect_success() {
    for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
      EXPECT_EQ(wait(rank), 0) << "rank " << rank;
    }
  }

 private:
  static int run(std::uint32_t rank, const std::function<void(std::uint32_t)>& body) {
    try {
      body(rank);
    } catch (const std::exception& error) {
      std::cerr << "rank " << rank << ": " << error.what() << "\n";
      return 2;
    }
    return testing::Test::HasFailure() ? 1 : 0;
  }

  std::vector<pid_t> children_;
};

/// All ranks of a job: `body(job)`, then the end of the job.
inline void run_job(const Servers& servers, std::uint32_t ranks, const std::function<void(Job&)>& body) {
  RankProcesses processes(ranks, [&](std::uint32_t rank) {
    Job job(servers.job(rank, ranks));
    body(job);
    job.end();
  });
  processes.expect_success();
}

/// The same, where each rank is on a node of its own, and so is each server.
inline void run_job_on_nodes(const Servers& servers, std::uint32_t ranks, const std::function<void(Job&)>& body) {
  RankProcesses processes(ranks, [&](std::uint32_t rank) {
    Job job(servers.job_on_nodes(rank, ranks, ranks));
    body(job);
    job.end();
  });
  processes.expect_success();
}

/// What `work` throws; "" if nothing.
inline std::string refusal_of(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace tiermap
