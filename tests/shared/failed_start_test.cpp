// A job that fails before all its ranks have come: who comes late is told, and who is started anew is not.
#include <unistd.h>

#include "cluster/job/job_protocol.hpp"
#include "cluster/job/process_age.hpp"
#include "cluster/wire/wire.hpp"
#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

/// Until the servers have forgotten the job.
void wait_for_the_end_of(const Servers& servers) {
  RankProcesses watcher(1, [&](std::uint32_t) {
    Wire wire{WireOptions{}};
    const std::string name = "job";
    for (const auto& process : servers.processes) {
      const auto connection = wire.connect(parse_host_and_port(process->address, "server"), WireLogin{});
      const auto missing = [&] {
        return connection
            ->call(WireMessage(static_cast<std::uint16_t>(JobRequest::absent), {}, std::as_bytes(std::span(name))))
            .body.text();
      };
      while (!missing().empty()) {
        std::this_thread::sleep_for(1ms);
      }
    }
  });
  watcher.expect_success();
}

/// Rank 2 of three, which joins at the first of two servers and ends.
void join_at_the_first_and_end(const Servers& servers, bool goes_on) {
  Wire wire{WireOptions{}};
  const auto connection = wire.connect(parse_host_and_port(servers.processes[0]->address, "server"), WireLogin{});
  const std::string name = "job";
  WireMessage join(static_cast<std::uint16_t>(JobRequest::join), {2, JobSize{3, 2, 0, goes_on}.word(), 0, 0},
                   std::as_bytes(std::span(name)));
  const WireReply reply = connection->start(std::move(join), std::nullopt).wait();
  EXPECT_EQ(reply.status, 0) << reply.body.text();
}

TEST(FailedStartTest, ARankThatComesWhenTheJobHasFailedIsToldWhyAtOnce) {
  const Servers servers(2);
  int gates[2][2];
  for (auto& gate : gates) {
    ASSERT_EQ(::pipe(gate), 0);
  }
  const auto pass = [&](int gate) {
    char byte = 0;
    EXPECT_EQ(::read(gates[gate][0], &byte, 1), 1);
  };
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 3);
    pass(rank == 0 ? 0 : 1);
    if (rank == 0) {
      options.join_patience = 200ms;
      EXPECT_NE(refusal_of([&] { Job job(options); }).find("have not come within 200 ms: 1, 2"), std::string::npos);
    } else {
      const std::string told = refusal_of([&] { Job job(options); });
      EXPECT_NE(told.find("have not come within 200 ms: 1, 2"), std::string::npos) << told;
    }
  });
  EXPECT_EQ(::write(gates[0][1], "0", 1), 1);
  EXPECT_EQ(processes.wait(0), 0);
  wait_for_the_end_of(servers);
  EXPECT_EQ(::write(gates[1][1], "12", 2), 2);
  EXPECT_EQ(processes.wait(1), 0);
  EXPECT_EQ(processes.wait(2), 0);
  for (const auto& gate : gates) {
    ::close(gate[0]);
    ::close(gate[1]);
  }
}

/// One that is of another job altogether, by its number of ranks, does not stand for one that is still to come.
TEST(FailedStartTest, WhoComesAfterADisagreementIsToldOfIt) {
  const Servers servers;
  int old_enough[2];
  int gate[2];
  ASSERT_EQ(::pipe(old_enough), 0);
  ASSERT_EQ(::pipe(gate), 0);
  RankProcesses processes(3, [&](std::uint32_t rank) {
    char byte = 0;
    if (rank == 2) {
      while (process_age() == 0ms) {  // So that it knows later that it was running when the job failed.
        std::this_thread::sleep_for(1ms);
      }
      EXPECT_EQ(::write(old_enough[1], "01", 2), 2);
      EXPECT_EQ(::read(gate[0], &byte, 1), 1);
    } else {
      EXPECT_EQ(::read(old_enough[0], &byte, 1), 1);
    }
    const std::string told = refusal_of([&] { Job job(rank == 1 ? servers.job(5, 6) : servers.job(rank / 2, 2)); });
    EXPECT_NE(told.find(" ranks, others that there are "), std::string::npos) << told;
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(1), 0);
  wait_for_the_end_of(servers);
  EXPECT_EQ(::write(gate[1], "2", 1), 1);
  EXPECT_EQ(processes.wait(2), 0);
  for (const int descriptor : {old_enough[0], old_enough[1], gate[0], gate[1]}) {
    ::close(descriptor);
  }
}

/// Its patience is as long as this waits for a process.
TEST(FailedStartTest, ARankThatEndsWhenItHasJoinedAtOneOfTwoServersIsNamed) {
  const Servers servers(2);
  RankProcesses processes(3, [&](std::uint32_t rank) {
    if (rank == 2) {
      join_at_the_first_and_end(servers, false);
    } else {
      const std::string told = refusal_of([&] { Job job(servers.job(rank, 3)); });
      EXPECT_TRUE(told.starts_with("job 'job': rank 2 at ")) << told;
      EXPECT_TRUE(told.ends_with(" ended without leaving it")) << told;
    }
  });
  processes.expect_success();
}

/// The server where all have come goes on without it, which the other one does not know of.
TEST(FailedStartTest, SuchARankIsNamedAlsoWhereTheJobWouldGoOnWithoutIt) {
  const Servers servers(2);
  RankProcesses processes(3, [&](std::uint32_t rank) {
    if (rank == 2) {
      join_at_the_first_and_end(servers, true);
    } else {
      JobOptions options = servers.job(rank, 3);
      options.go_on_without_lost_ranks = true;
      options.join_patience = 10min;
      EXPECT_EQ(refusal_of([&] { Job job(options); }),
                "job 'job': rank 2 ended before all ranks had come to all servers: start the job again");
    }
  });
  processes.expect_success();
}

TEST(FailedStartTest, WhoWaitsLongerHearsWhoHasNotCome) {
  const Servers servers(2);
  const SharedNumbers come;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 3);
    options.join_patience = rank == 0 ? 1000ms : 10min;
    if (rank == 2) {
      EXPECT_TRUE(come.reaches(0, 2));  // Such a late rank belongs to the job that has failed.
    }
    const std::string told = refusal_of([&] { Job job(options); });
    EXPECT_NE(told.find("of 3 ranks these have not come within 1000 ms: "), std::string::npos) << told;
    EXPECT_NE(told.find(" 2: see why, or wait longer"), std::string::npos) << told;
    ++come[0];
  });
  processes.expect_success();
}

TEST(FailedStartTest, RanksThatAreStartedAfterAJobHasFailedAreANewOne) {
  const Servers servers;
  for (int round = 0; round < 2; ++round) {
    RankProcesses processes(1, [&](std::uint32_t) {
      JobOptions options = servers.job(1, 3);
      options.join_patience = 100ms;
      EXPECT_NE(refusal_of([&] { Job job(options); }).find("have not come"), std::string::npos);
    });
    processes.expect_success();
    wait_for_the_end_of(servers);
    run_job(servers, 3, [](Job& job) { job.barrier(); });
  }
}

}  // namespace
}  // namespace tiermap
