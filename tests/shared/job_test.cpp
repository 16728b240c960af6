// Jobs: ranks that come, meet, lock and count, disagree, and die.
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "shared/bare_rank.hpp"
#include "shared/rank_processes.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

TEST(JobTest, RanksMeetCountAndLock) {
  const Servers servers(2);
  run_job(servers, 4, [](Job& job) {
    EXPECT_EQ(job.ranks(), 4U);
    for (std::uint64_t round = 1; round <= 20; ++round) {
      job.fetch_add("rounds", 1);
      job.barrier();
      EXPECT_EQ(job.fetch_add("rounds", 0), round * 4);
      job.barrier();
    }
    for (int round = 0; round < 20; ++round) {
      JobLock lock = job.lock("alone");
      EXPECT_EQ(job.fetch_add("inside", 1), 0U);
      EXPECT_EQ(job.fetch_add("inside", ~std::uint64_t{0}), 1U);
      if (round % 2 == 0) {
        lock.unlock();
      }
    }
  });
}

/// What a rank gathers: of other lengths than others' by bytes or by megabytes, and sometimes nothing.
std::vector<std::byte> own_bytes(std::uint32_t rank, std::size_t scale) {
  std::vector<std::byte> bytes(rank == 1 ? 0 : rank * scale + 3);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    bytes[at] = static_cast<std::byte>(at * 7 + rank);
  }
  return bytes;
}

TEST(JobTest, EverybodyGathersWhatEverybodyHas) {
  run_job(Servers(2), 3, [](Job& job) {
    for (const std::size_t scale : {std::size_t{1}, std::size_t{100'000}, std::size_t{2'000'000}}) {
      const std::vector<std::vector<std::byte>> all = job.gather(own_bytes(job.rank(), scale));
      ASSERT_EQ(all.size(), 3U);
      for (std::uint32_t rank = 0; rank < 3; ++rank) {
        EXPECT_TRUE(all[rank] == own_bytes(rank, scale)) << rank << " " << scale;
      }
    }
    EXPECT_EQ(job.gather({}), std::vector<std::vector<std::byte>>(3));
  });
}

TEST(JobTest, OneThatGathersWhileAnotherIsAtABarrierIsToldSo) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    EXPECT_EQ(refusal_of([&] {
                if (rank == 0) {
                  job.gather({});
                } else {
                  job.barrier();
                }
              }),
              "job 'job': rank 0 gathers what each rank has, but rank 1 is at a barrier: have all ranks do the same");
    job.end();
  });
  processes.expect_success();
}

TEST(JobTest, OneOfThoseWhoAreLeftIsTheFirstToTell) {
  const Servers servers;
  RankProcesses processes(4, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 4));
    if (rank == 3) {
      ::raise(SIGKILL);
    }
    EXPECT_NE(refusal_of([&] { job.barrier(); }), "");
    ::_exit(job.is_first_to_tell() ? 10 : 20);
  });
  std::vector<int> codes = {processes.wait(0), processes.wait(1), processes.wait(2)};
  std::ranges::sort(codes);
  EXPECT_EQ(codes, (std::vector<int>{10, 20, 20}));
}

TEST(JobTest, ALockIsNotTakenTwiceByOneThread) {
  const Servers servers;
  run_job(servers, 1, [](Job& job) {
    const JobLock lock = job.lock("mine");
    EXPECT_NE(refusal_of([&] { job.lock("mine"); }).find("this thread has the lock 'mine' already"), std::string::npos);
  });
}

TEST(JobTest, ItDoesNotEndWithALockHeld) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    if (job.rank() == 0) {
      JobLock lock = job.lock("mine");
      EXPECT_NE(refusal_of([&] { job.end(); }).find("cannot end with lock 'mine' held: unlock it first"),
                std::string::npos);
      lock.unlock();
    }
    const JobLock next = job.lock("mine");
  });
}

TEST(JobTest, JobsOfOneNameFollowEachOther) {
  const Servers servers;
  for (int round = 0; round < 3; ++round) {
    run_job(servers, 2, [](Job& job) {
      auto vector = SharedVector<int>::create(job, "v", 1000);
      EXPECT_EQ(vector[999], 0);
      job.barrier();
      vector[999] = 1;
      vector.close();
    });
  }
}

/// However long a rank takes to let go of the one that it has ended.
TEST(JobTest, JobsOfOneNameFollowEachOtherInOneProcess) {
  const Servers servers(2);
  RankProcesses processes(2, [&](std::uint32_t rank) {
    for (std::uint32_t round = 0; round < 6; ++round) {
      Job job(servers.job(rank, 2));
      // Most of what the servers have.
      auto vector = SharedVector<std::byte>::create(job, "v", 400 << 20);
      vector.close();
      job.end();
      std::this_thread::sleep_for(round % 2 == rank ? 200ms : 0ms);
    }
  });
  processes.expect_success();
}

TEST(JobTest, RanksThatDisagreeAboutTheirNumberAreToldSo) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    const std::string refusal = refusal_of([&] { Job job(servers.job(rank, 2 + rank)); });
    EXPECT_TRUE(refusal.find("ranks, others that there are") != std::string::npos ||
                refusal.find("others are left") != std::string::npos)
        << refusal;
  });
  processes.expect_success();
}

/// The lists of two ranks, who are to be told at once, long before they would have waited for each other in vain.
void expect_different_servers_are_named(const std::string& of_rank_0, const std::string& of_rank_1) {
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options;
    options.rank = rank;
    options.ranks = 2;
    options.servers = rank == 0 ? of_rank_0 : of_rank_1;
    options.join_patience = 10min;
    const std::string refusal = refusal_of([&] { Job job(options); });
    EXPECT_TRUE(refusal.find("names other servers than others do") != std::string::npos ||
                refusal.find("others are left") != std::string::npos)
        << refusal;
  });
  processes.expect_success();
}

TEST(JobTest, RanksThatNameDifferentServersAreToldSo) {
  const Servers first(1);
  const Servers second(1);
  const std::string both = first.addresses + "," + second.addresses;
  expect_different_servers_are_named(both, first.addresses);
  expect_different_servers_are_named(both, second.addresses);
  expect_different_servers_are_named(both, second.addresses + "," + first.addresses);
}

TEST(JobTest, AServerThatIsNamedTwiceIsRefused) {
  const Servers servers;
  const std::string port = servers.addresses.substr(servers.addresses.find(':'));
  RankProcesses processes(1, [&](std::uint32_t) {
    for (const std::string& again : {servers.addresses, "127.1" + port}) {
      JobOptions options = servers.job(0, 1);
      options.servers += "," + again;
      EXPECT_EQ(refusal_of([&] { Job job(options); }), "servers '" + servers.addresses + "' and '" + again + "' of '" +
                                                           options.servers + "' are one: name each server once");
    }
  });
  processes.expect_success();
}

TEST(JobTest, ARankThatDoesNotComeIsNamed) {
  const Servers servers;
  JobOptions options = servers.job(0, 3);
  options.join_patience = 200ms;
  RankProcesses processes(1, [&](std::uint32_t) {
    EXPECT_NE(refusal_of([&] { Job job(options); }).find("have not come within 200 ms: 1, 2"), std::string::npos);
  });
  processes.expect_success();
}

TEST(JobTest, ARankIsWaitedForForAsLongAsCanBeSaid) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 2);
    options.join_patience = std::chrono::milliseconds::max();
    if (rank == 1) {
      std::this_thread::sleep_for(500ms);
    }
    Job(options).end();
  });
  processes.expect_success();
}

TEST(JobTest, ARankThatIsThereTwiceIsRefused) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t process) {
    JobOptions options = servers.job(0, 2);
    options.join_patience = process == 0 ? 2000ms : 1000ms;
    if (process == 1) {
      std::this_thread::sleep_for(300ms);
    }
    const std::string refusal = refusal_of([&] { Job job(options); });
    EXPECT_NE(refusal.find(process == 1 ? "has a rank 0 already" : "have not come"), std::string::npos) << refusal;
  });
  processes.expect_success();
}

TEST(JobTest, DisagreementsAboutAVectorAreNamedOnEveryRank) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    const auto refused = [&](const std::function<void()>& work, const std::string& part) {
      const std::string refusal = refusal_of(work);
      EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    };
    refused([&] { SharedVector<int>::create(job, "v", job.rank() == 2 ? 1001 : 1000); },
            "but rank 2 makes vector 'v' of 1001 elements");
    refused(
        [&] {
          if (job.rank() == 1) {
            SharedVector<float>::create(job, "v", 1000);
          } else {
            SharedVector<int>::create(job, "v", 1000);
          }
        },
        "but rank 1 makes vector 'v' of 1000 elements of 4 bytes (f)");
    SharedVectorOptions options;
    options.page_size_bytes = job.rank() == 1 ? 4096 : 8192;
    refused([&] { SharedVector<int>::create(job, "v", 1000, options); }, "in pages of 4KiB");
    refused(
        [&] {
          if (job.rank() == 1) {
            job.barrier();
          } else {
            SharedVector<int>::create(job, "v", 1000);
          }
        },
        "but rank 1 is at a barrier");
    // And all goes on.
    auto vector = SharedVector<int>::create(job, "v", 1000);
    refused([&] { SharedVector<int>::create(job, "v", 1000); }, "has a vector 'v' already");
    refused([&] { SharedVector<int>::open(job, "nothing"); }, "is not here");
    refused([&] { SharedVector<int>::create(job, "w", 1 << 30); }, "does not fit");
    refused([&] { job.end(); }, "open: close it first");
    vector.close();
  });
}

void ask_for_ever(Job& job) {
  for (;;) {
    job.fetch_add("questions", 1);
  }
}

/// A rank dies in some way while others wait in another; every one of them is told which rank it was.
void expect_told(int signal_number, const std::function<void(Job&, SharedVector<int>&)>& waiting) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ntimeout_seconds: 1\n";
  const Servers servers(2, {"--config", directory / "node.yaml"});
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 3);
    options.timeout = 1000ms;
    Job job(options);
    auto vector = SharedVector<int>::create(job, "v", 1 << 20);
    const JobLock lock = rank == 1 ? job.lock("held") : JobLock(nullptr, "");
    job.barrier();
    if (rank == 1) {
      std::this_thread::sleep_for(300ms);
      ::raise(signal_number);
      std::this_thread::sleep_for(60s);
    }
    const std::string told = refusal_of([&] { waiting(job, vector); });
    EXPECT_NE(told.find("rank 1 at "), std::string::npos) << told;
    EXPECT_NE(refusal_of([&] { job.fetch_add("more", 1); }).find("rank 1 at "), std::string::npos);
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

TEST(JobTest, AKilledRankIsNamedToThoseAtABarrier) {
  expect_told(SIGKILL, [](Job& job, SharedVector<int>&) { job.barrier(); });
}

TEST(JobTest, AKilledRankIsNamedToThoseWhoWaitForALock) {
  expect_told(SIGKILL, [](Job& job, SharedVector<int>&) { job.lock("held"); });
}

TEST(JobTest, AKilledRankIsNamedToThoseWhoAcquire) {
  expect_told(SIGKILL, [](Job&, SharedVector<int>& vector) {
    for (;;) {
      vector.acquire();
    }
  });
}

/// The copies of what it wrote no longer fit into their file, and what it wrote under the lock is not home.
TEST(JobTest, ALockThatCannotBeGivenUpAtTheEndOfItsBlockFailsTheJob) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    SharedVectorOptions options;
    options.budget_bytes = 4 << 20;
    options.page_size_bytes = 4096;
    options.scratch_folder = ".";
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 512 * 512, options);
    std::string told;
    if (rank == 0) {
      {
        const JobLock lock = job.lock("mine");
        job.barrier();
        for (std::uint64_t index = 0; index < vector.size(); index += 512) {
          vector[index] = 1;
        }
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{};
        ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
      }
      told = refusal_of([&] { job.fetch_add("next", 1); });
      EXPECT_NE(told.find("rank 0 could not give up the lock 'mine'"), std::string::npos) << told;
      EXPECT_NE(refusal_of([&] { job.barrier(); }), "");
    } else {
      job.barrier();
      told = refusal_of([&] { job.lock("mine"); });
      EXPECT_NE(told.find("rank 0 at "), std::string::npos) << told;
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  });
  processes.expect_success();
}

TEST(JobTest, AStoppedRankIsNoticed) {
  expect_told(SIGSTOP, [](Job& job, SharedVector<int>&) { job.barrier(); });
}

TEST(JobTest, APageThatCannotBeFetchedIsASigbus) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    const auto vector = SharedVector<int>::create(job, "v", 1 << 20);
    // Who has not yet come back from the first barrier may be told there.
    const std::string told = refusal_of([&] {
      job.barrier();
      if (rank == 1) {
        ::raise(SIGKILL);
      }
      job.barrier();
    });
    EXPECT_NE(told, "");
    EXPECT_EQ(vector[5], 0);
  });
  EXPECT_EQ(processes.wait(0), 128 + SIGBUS);
}

TEST(JobTest, ARankThatEndsWithoutEndingTheJobFailsIt) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    if (rank == 0) {
      EXPECT_NE(refusal_of([&] { job.barrier(); }).find("rank 1 at "), std::string::npos);
    }
  });
  processes.expect_success();
}

TEST(JobTest, WhoAsksAfterHisOwnEndIsToldThatItWasHis) {
  const Servers servers(2);
  for (const bool goes_on : {false, true}) {
    RankProcesses(2, [&](std::uint32_t rank) {
      JobOptions options = servers.job(rank, 2);
      options.go_on_without_lost_ranks = goes_on;
      Job job(options);
      job.end();
      for (const std::string& told : {refusal_of([&] { job.barrier(); }), refusal_of([&] { job.lock("held"); }),
                                      refusal_of([&] { job.fetch_add("more", 1); }), refusal_of([&] { job.end(); })}) {
        EXPECT_EQ(told, "job 'job' is over for rank " + std::to_string(rank) +
                            ", which has ended it: do this before end(), or make another job");
      }
    }).expect_success();
  }
}

TEST(JobTest, AServerThatDiesIsNamed) {
  const Servers servers(2);
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    auto vector = SharedVector<int>::create(job, "v", 1 << 20);
    const std::string told = refusal_of([&] {
      job.barrier();
      if (rank == 0) {
        servers.processes[1]->signal(SIGKILL);
      }
      for (;;) {
        vector.acquire();
      }
    });
    EXPECT_NE(told.find(servers.processes[1]->address), std::string::npos) << told;
    EXPECT_NE(told.find("is gone: "), std::string::npos) << told;
    EXPECT_NE(told.find("see whether it runs, and start the job again"), std::string::npos) << told;
    std::this_thread::sleep_for(500ms);  // The end of this rank is not to be what the other is told.
  });
  processes.expect_success();
}

TEST(JobTest, AServerThatDiesIsNamedToThoseWhoOnlyAskAnother) {
  const Servers servers(2);
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    const std::string told = refusal_of([&] {
      job.barrier();
      if (rank == 0) {
        servers.processes[1]->signal(SIGKILL);
      }
      for (;;) {
        job.fetch_add("questions", 1);
      }
    });
    EXPECT_NE(told.find(servers.processes[1]->address), std::string::npos) << told;
    std::this_thread::sleep_for(500ms);  // The end of this rank is not to be what the other is told.
  });
  processes.expect_success();
}

/// One server hears of a rank's end before the other does, and tells a second rank, which ends. The other server is not
/// to take that for the reason.
TEST(JobTest, ARankThatEndsBecauseAnotherDiedIsNotNamedForIt) {
  const Servers servers(2);
  RankProcesses processes(3, [&](std::uint32_t rank) {
    if (rank == 0) {
      Job job(servers.job(rank, 3));
      EXPECT_NE(refusal_of([&] { ask_for_ever(job); }).find("rank 1 at "), std::string::npos);
      return;
    }
    BareRank bare(servers, rank, 3);
    if (rank == 1) {
      bare.close(0);
      std::this_thread::sleep_for(60s);
    }
    for (;;) {
      const WireReply reply = bare.start(1, JobRequest::fetch_add, {1, 0, 0, 0}, "questions").wait();
      if (reply.status != 0) {
        EXPECT_NE(reply.body.text().find("rank 1 at "), std::string::npos) << reply.body.text();
        return;
      }
    }
  });
  EXPECT_EQ(processes.wait(0), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

}  // namespace
}  // namespace tiermap
