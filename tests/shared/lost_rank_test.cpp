// Jobs that go on without a rank: one that is killed wherever it is, one that is stopped and comes back, one of which a
// server has not heard the end, and the duties of the first rank. consistency_test.cpp has random programs.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "shared/bare_rank.hpp"
#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "store/random_rounds.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;
using Ranks = std::vector<std::uint32_t>;

JobOptions going_on(const Servers& servers, std::uint32_t rank, std::uint32_t ranks = 3) {
  JobOptions options = servers.job(rank, ranks);
  options.go_on_without_lost_ranks = true;
  return options;
}

/// Until the job has lost one.
void meet_until_one_is_lost(Job& job) {
  while (job.lost_ranks().empty()) {
    job.barrier();
  }
}

std::uint64_t drawn_seed() {
  const std::uint64_t seed = test_seed();
  std::cout << "seed " << seed << "\n" << std::flush;
  return seed;
}

/// Three ranks, of which one is killed at a random moment after all have done something; the others are to end well.
void kill_one_of_three(const SharedNumbers& numbers, const std::function<void(std::uint32_t, std::uint32_t)>& body) {
  std::mt19937_64 random(drawn_seed());
  const auto victim = static_cast<std::uint32_t>(random() % 3);
  RankProcesses processes(3, [&](std::uint32_t rank) { body(rank, victim); });
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(numbers.reaches(rank, 1));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 200'000));
  processes.signal(victim, SIGKILL);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(processes.wait(rank), rank == victim ? 128 + SIGKILL : 0) << rank;
  }
}

/// Elements on the first server, and as many on the second, in turn.
constexpr std::uint64_t in_stripe = (64 << 10) / sizeof(std::uint64_t);
constexpr std::uint64_t elements = in_stripe * 4;
SharedVector<std::uint64_t> make_vector(Job& job) {
  SharedVectorOptions options;
  options.stripe_bytes = 64 << 10;
  options.scratch_folder = ".";
  return SharedVector<std::uint64_t>::create(job, "v", elements, options);
}
const std::string making = "makes vector 'v' of 32768 elements of 8 bytes (u) in pages of 64KiB and stripes of 64KiB";

TEST(LostRankTest, BarriersAndWhatIsWrittenBetweenThemGoOnWithoutIt) {
  const Servers servers(2);
  const SharedNumbers numbers;
  kill_one_of_three(numbers, [&](std::uint32_t rank, std::uint32_t victim) {
    Job job(going_on(servers, rank));
    auto vector = make_vector(job);
    int rounds_without = 0;
    for (std::uint64_t round = 1; rounds_without < 10; ++round) {
      vector[rank] = round;
      vector[in_stripe + rank] = round;
      job.barrier();
      const Ranks lost = job.lost_ranks();
      ASSERT_TRUE(lost.empty() || lost == Ranks{victim});
      for (std::uint32_t one = 0; one < 3; ++one) {
        if (lost.empty() || one != victim) {
          ASSERT_EQ(vector[one], round);
          ASSERT_EQ(vector[in_stripe + one], round);
        }
      }
      job.barrier();
      rounds_without += lost.empty() ? 0 : 1;
      numbers[rank] = round;
    }
    vector.close();
    job.end();
  });
  run_job(servers, 2, [](Job& job) { job.barrier(); });
}

TEST(LostRankTest, WhoHasTheLockNextIsToldOnceAndSeesWhatWasReleased) {
  const Servers servers(2);
  for (std::uint32_t victim = 0; victim < 3; ++victim) {
    RankProcesses processes(3, [&](std::uint32_t rank) {
      Job job(going_on(servers, rank));
      auto vector = make_vector(job);
      JobLock held = rank == victim ? job.lock("held") : JobLock(nullptr, "");
      EXPECT_EQ(held.lost_holder(), std::nullopt);
      job.barrier();
      if (rank == victim) {
        vector[1] = 7;
        vector[in_stripe] = 7;
        vector.release();
        vector[2] = 9;
        ::raise(SIGKILL);
      }
      for (int turn = 0; turn < 2; ++turn) {
        JobLock lock = job.lock("held");
        if (lock.lost_holder().has_value()) {
          EXPECT_EQ(lock.lost_holder(), victim);
          job.fetch_add("told", 1);
        }
        EXPECT_EQ(vector[1] + vector[in_stripe], 14U);
        EXPECT_TRUE(vector[2] == 0 || vector[2] == 9);
        ++vector[3];
        lock.unlock();
      }
      job.barrier();
      EXPECT_EQ(job.fetch_add("told", 0), 1U);
      EXPECT_EQ(vector[3], 4U);
      EXPECT_EQ(job.lost_ranks(), Ranks{victim});
      vector.close();
      job.end();
    });
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(processes.wait(rank), rank == victim ? 128 + SIGKILL : 0) << rank;
    }
  }
}

/// Nobody waits for the lock as its holder dies, and one that waits for it dies, too.
TEST(LostRankTest, ALockIsFreeWhoeverIsLostWithItOrWaitingForIt) {
  const Servers servers;
  const SharedNumbers numbers;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    Job job(going_on(servers, rank));
    if (rank == 2) {
      meet_until_one_is_lost(job);  // Without rank 1, which waits.
      numbers[1] = 1;
      while (job.lost_ranks().size() < 2) {
        job.barrier();
      }
      EXPECT_EQ(job.lost_ranks(), (Ranks{1, 0}));
      JobLock lock = job.lock("held");
      EXPECT_EQ(lock.lost_holder(), 0U);
      lock.unlock();
      EXPECT_EQ(job.lock("held").lost_holder(), std::nullopt);
      job.end();
      return;
    }
    if (rank == 1) {
      ASSERT_TRUE(numbers.reaches(0, 1));
      job.lock("held");
      ADD_FAILURE() << "two have the lock";
      return;
    }
    const JobLock lock = job.lock("held");
    numbers[0] = 1;
    meet_until_one_is_lost(job);
    ASSERT_TRUE(numbers.reaches(1, 1));
    ::raise(SIGKILL);
  });
  ASSERT_TRUE(numbers.reaches(0, 1));
  std::this_thread::sleep_for(100ms);  // Whether it waits already or not, it is lost.
  processes.signal(1, SIGKILL);
  EXPECT_EQ(processes.wait(2), 0);
}

TEST(LostRankTest, OfTransactionsThoseThatWereCommittedAreThere) {
  const Servers servers(2);
  const SharedNumbers numbers;
  kill_one_of_three(numbers, [&](std::uint32_t rank, std::uint32_t victim) {
    Job job(going_on(servers, rank));
    auto vector = make_vector(job);
    const auto play = [&](std::uint64_t round) {
      auto transaction = vector.read_write({10, elements - 10});
      transaction.for_each([&](std::uint64_t& element) { element = round; });
      transaction.commit();
      numbers[10] = round;
      vector.update({0, 2}, [&](std::span<std::uint64_t> pair) { pair[0] = pair[1] = round; });
      numbers[11] = round;
      numbers[rank] = round;
    };
    if (rank == victim) {
      for (std::uint64_t round = 1;; ++round) {
        play(round);
      }
    }
    numbers[rank] = 1;
    meet_until_one_is_lost(job);
    const std::uint64_t committed = numbers[10];
    for (std::uint64_t index = 10; index < elements; ++index) {
      ASSERT_TRUE(vector[index] == committed || vector[index] == committed + 1) << index << " of " << committed;
    }
    EXPECT_EQ(vector[0], vector[1]);
    EXPECT_TRUE(vector[0] == numbers[11] || vector[0] == numbers[11] + 1);
    vector.close();
    job.end();
  });
}

/// The first server has lost a rank, and the second one has not heard of it: what comes there from it, once another
/// rank has the lock that it had, is too late.
void expect_late_writes_do_not_land(const std::vector<std::string>& options) {
  const Servers servers(2, options);
  const SharedNumbers numbers;
  enum { holds, is_lost, next_holds, has_written };
  constexpr std::uint64_t last_value = 200;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    if (rank == 0) {
      BareRank bare(servers, 0, 3, true);
      EXPECT_EQ(bare.start(0, JobRequest::collective, {}, making).wait().status, 0);
      const std::uint64_t bytes = elements / 2 * sizeof(std::uint64_t);
      bare.start(0, JobRequest::open, {bytes, 1, 0, 0}, "v").wait();
      const std::uint64_t handle = bare.start(1, JobRequest::open, {bytes, 1, 0, 0}, "v").wait().words[0];
      EXPECT_EQ(bare.start(0, JobRequest::lock, {}, "held").wait().status, 0);
      const auto write = [&](std::uint64_t value) {
        const std::vector<std::uint64_t> all(in_stripe, value);
        ChangeList list;
        list.add(0, std::as_bytes(std::span(all)));
        return bare.start(1, JobRequest::change, {handle, 0, 0, 0}, list.encoded());
      };
      EXPECT_EQ(write(1).wait().status, 0);
      numbers[holds] = 1;
      EXPECT_TRUE(numbers.reaches(is_lost, 1));
      EXPECT_EQ(write(2).wait().status, 0);
      std::vector<WireCall> calls;
      for (std::uint64_t value = 3; value <= last_value; ++value) {  // Some of them in time, or all, or none.
        calls.push_back(write(value));
      }
      bare.close(0);
      EXPECT_TRUE(numbers.reaches(next_holds, 1));
      EXPECT_NE(write(last_value + 1).wait().status, 0);
      numbers[has_written] = 1;
      return;
    }
    Job job(going_on(servers, rank));
    auto vector = make_vector(job);
    EXPECT_TRUE(numbers.reaches(holds, 1));
    numbers[is_lost] = 1;
    JobLock lock = job.lock("held");
    if (lock.lost_holder().has_value()) {
      EXPECT_EQ(lock.lost_holder(), 0U);
      const std::uint64_t found = vector[in_stripe];
      EXPECT_TRUE(found >= 2 && found <= last_value) << found;
      numbers[next_holds] = 1;
      EXPECT_TRUE(numbers.reaches(has_written, 1));
      vector.acquire();
      EXPECT_EQ(vector[in_stripe], found);
      vector[in_stripe] = 5;
    }
    lock.unlock();
    job.barrier();
    EXPECT_EQ(vector[in_stripe], 5U);
    vector.close();
    job.end();
  });
  EXPECT_EQ(processes.wait(1), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

TEST(LostRankTest, WhatItWritesLateDoesNotLandInMemory) {
  expect_late_writes_do_not_land({"--memory", "256MiB"});
}

TEST(LostRankTest, WhatItWritesLateDoesNotLandInFiles) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndirectory: " << directory.path()
                                         << "\ndirectory_size: 64MiB\n";
  expect_late_writes_do_not_land({"--config", directory / "node.yaml"});
}

/// It had a lock as it was stopped, and comes back when others have written under it.
TEST(LostRankTest, OneThatWasStoppedIsToldWhenItComesBackAndWritesNothing) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ntimeout_seconds: 3\n";
  const Servers servers(2, {"--config", directory / "node.yaml"});
  const SharedNumbers numbers;
  enum { holds, others_had_it, is_back, was_told };
  RankProcesses processes(3, [&](std::uint32_t rank) {
    Job job(going_on(servers, rank));
    auto vector = make_vector(job);
    if (rank == 1) {
      JobLock lock = job.lock("held");
      vector[3] = 1;
      vector[in_stripe] = 1;
      numbers[holds] = 1;
      EXPECT_TRUE(numbers.reaches(is_back, 1));
      for (const std::string& told : {refusal_of([&] { lock.unlock(); }), refusal_of([&] { job.fetch_add("more", 1); }),
                                      refusal_of([&] { job.barrier(); }), refusal_of([&] { vector.release(); })}) {
        EXPECT_NE(told.find("or has given up rank 1, without which the others go on"), std::string::npos) << told;
      }
      numbers[was_told] = 1;
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    EXPECT_TRUE(numbers.reaches(holds, 1));
    JobLock lock = job.lock("held");
    if (lock.lost_holder().has_value()) {
      EXPECT_EQ(lock.lost_holder(), 1U);
      EXPECT_EQ(vector[3] + vector[in_stripe], 0U);
    }
    vector[3] = vector[in_stripe] = 5;
    lock.unlock();
    numbers[others_had_it].fetch_add(1);
    EXPECT_TRUE(numbers.reaches(was_told, 1));
    job.barrier();
    EXPECT_EQ(vector[3] + vector[in_stripe], 10U);
    EXPECT_EQ(job.lost_ranks(), Ranks{1});
    vector.close();
    job.end();
  });
  EXPECT_TRUE(numbers.reaches(holds, 1));
  processes.signal(1, SIGSTOP);
  EXPECT_TRUE(numbers.reaches(others_had_it, 2));
  processes.signal(1, SIGCONT);
  numbers[is_back] = 1;
  processes.expect_success();
}

TEST(LostRankTest, TheLowestRankThatIsLeftDoesWhatTheFirstOneDid) {
  const Servers servers(2);
  const TemporaryDirectory directory(".");
  RankProcesses processes(3, [&](std::uint32_t rank) {
    Job job(going_on(servers, rank));
    auto before = make_vector(job);
    if (rank == 0) {
      ::raise(SIGKILL);
    }
    meet_until_one_is_lost(job);
    before[rank] = rank;
    before.save(directory / "saved");
    before.destroy();
    auto after = make_vector(job);
    EXPECT_EQ(after[1], 0U);
    after.load(directory / "saved");
    EXPECT_EQ(after[1], 1U);
    EXPECT_EQ(after[2], 2U);
    after.set_phase(Phase::read_only);
    EXPECT_EQ(after[1], 1U);
    EXPECT_NE(refusal_of([&] { after.save("/nowhere/saved"); }).find("rank 1 cannot save vector 'v'"),
              std::string::npos);
    after.close();
    job.end();
  });
  EXPECT_EQ(processes.wait(1), 0);
  EXPECT_EQ(processes.wait(2), 0);
}

TEST(LostRankTest, ACopyWhoseMakerIsLostIsAnErrorAndDoneByTheNext) {
  const Servers servers(2);
  const TemporaryDirectory directory(".");
  RankProcesses processes(3, [&](std::uint32_t rank) {
    if (rank == 0) {
      BareRank bare(servers, 0, 3, true);
      bare.start(0, JobRequest::collective, {}, making).wait();
      bare.start(0, JobRequest::collective, {}, "begins to save vector 'v'").wait();
      return;
    }
    Job job(going_on(servers, rank));
    auto vector = make_vector(job);
    vector[rank] = rank;
    EXPECT_EQ(refusal_of([&] { vector.save(directory / "saved"); }),
              "job 'job': rank 0 was lost, which was to save vector 'v': any part of it may be done: do it again, and "
              "save elsewhere");
    vector.save(directory / "again");
    EXPECT_EQ(std::filesystem::file_size(directory / "again"), elements * sizeof(std::uint64_t));
    vector.close();
    job.end();
  });
  processes.expect_success();
}

/// It has said a part of what it has, or all of it, as it is lost.
TEST(LostRankTest, AllWhoAreLeftGatherTheSame) {
  const Servers servers;
  for (const std::uint64_t said : {10U, 1000U}) {
    RankProcesses processes(3, [&](std::uint32_t rank) {
      if (rank == 0) {
        BareRank bare(servers, 0, 3, true);
        const std::vector<std::byte> part(10);
        EXPECT_EQ(bare.start(0, JobRequest::gather, {said, 0, 0, 0}, part).wait().status, 0);
        return;
      }
      Job job(going_on(servers, rank));
      const std::vector<std::byte> own(1'000'000 * rank, static_cast<std::byte>(rank));
      const auto all = job.gather(own);
      EXPECT_TRUE(all[0].empty());
      EXPECT_EQ(all[1].size(), 1'000'000U);
      EXPECT_EQ(all[2].size(), 2'000'000U);
      EXPECT_EQ(all[rank], own);
      EXPECT_EQ(job.lost_ranks(), Ranks{0});
      job.end();
    });
    processes.expect_success();
  }
}

TEST(LostRankTest, WhatHasRanksDependOnEachOtherIsRefused) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = going_on(servers, rank, 2);
    options.node_cache_bytes = 1 << 20;
    const auto expect_refused = [](const std::string& what, const std::function<void()>& work) {
      EXPECT_EQ(refusal_of(work), "job 'job' goes on without ranks that it loses, and cannot " + what +
                                      ", or do not set go_on_without_lost_ranks");
    };
    expect_refused("have a cache of nodes: set no TIERMAP_NODE_CACHE", [&] { Job job(options); });
    Job job(going_on(servers, rank, 2));
    auto vector = make_vector(job);
    expect_refused("have all of them read vector 'v' together: do without",
                   [&] { vector.read_together({0, elements}); });
    expect_refused("reserve addresses: do without", [&] { job.reserve_addresses(4096); });
    expect_refused("have vector 'w' at the same address on all of them: do without",
                   [&] { SharedVector<int>::create(job, "w", 10, {.same_address = true}); });
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(LostRankTest, RanksAgreeWhetherTheJobGoesOn) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 2);
    options.go_on_without_lost_ranks = rank == 0;
    const std::string refusal = refusal_of([&] { Job job(options); });
    EXPECT_TRUE(refusal.find("others that it") != std::string::npos ||
                refusal.find("others are left") != std::string::npos)
        << refusal;
  });
  processes.expect_success();
}

TEST(LostRankTest, AJobThatHasNotBegunDoesNotGoOn) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    if (rank == 0) {
      EXPECT_NE(refusal_of([&] { Job job(going_on(servers, 0)); }), "");
      return;
    }
    std::this_thread::sleep_for(100ms);  // If the first one has not come, this one is told that others are missing.
    JobOptions options = going_on(servers, 1);
    options.join_patience = 200ms;
    EXPECT_NE(refusal_of([&] { Job job(options); }), "");
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tiermap
