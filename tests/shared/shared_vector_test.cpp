// Shared vectors: what ranks see of each other, and what it costs. The first ones are the examples of
// docs/coherence.md.
#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <numeric>
#include <random>

#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "shared/small_pages.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"
#include "tiermap/store.hpp"

namespace tiermap {
namespace {

TEST(CoherenceTest, WhatWasWrittenBeforeABarrierIsSeenAfterIt) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<int>::create(job, "v", 3);
    for (int round = 1; round <= 20; ++round) {
      vector[job.rank()] = round;
      job.barrier();
      EXPECT_EQ(vector[0] + vector[1] + vector[2], 3 * round);
      job.barrier();
    }
    vector.close();
  });
}

TEST(CoherenceTest, WhatWasWrittenUnderALockIsSeenByWhoHasItNext) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<int>::create(job, "v", 10);
    for (int round = 0; round < 50; ++round) {
      JobLock lock = job.lock("sum");
      ++vector[5];
      lock.unlock();
    }
    job.barrier();
    EXPECT_EQ(vector[5], 150);
    vector.close();
  });
}

TEST(CoherenceTest, AnElementThatIsCopiedIsSeenAsAWhole) {
  using Wide = std::array<std::uint64_t, 8>;
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<Wide>::create(job, "v", 64);
    constexpr std::uint64_t last = 300;
    std::array<Wide, 1> element{};
    for (std::uint64_t value = 1; element[0][0] < last; ++value) {
      if (job.rank() == 0) {
        element[0].fill(value);
        vector.copy_from(element, 5);
      } else {
        vector.copy_to(element, 5);
        EXPECT_EQ(std::ranges::count(element[0], element[0][0]), 8);
      }
    }
    job.barrier();
    vector.close();
  });
}

TEST(CoherenceTest, AReleaseBeforeAFlagIsSeenByAnAcquireAfterIt) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<int>::create(job, "v", 1000);
    EXPECT_EQ(vector[7], 0);
    job.barrier();
    if (job.rank() == 0) {
      vector[7] = 42;
      vector.release();
      job.fetch_add("flag", 1);
    } else {
      while (job.fetch_add("flag", 0) == 0) {
      }
      vector.acquire();
      EXPECT_EQ(vector[7], 42);
    }
    job.barrier();
    vector.close();
  });
}

TEST(CoherenceTest, ATransactionAcquiresAndItsCommitReleases) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 100'000);
    if (job.rank() == 0) {
      auto transaction = vector.read_write(vector.all());
      std::uint64_t next = 0;
      transaction.for_each([&](std::uint64_t& element) { element = next++; });
      transaction.commit();
      job.fetch_add("flag", 1);
    } else {
      while (job.fetch_add("flag", 0) == 0) {
      }
      std::uint64_t next = 0;
      auto transaction = vector.read(vector.all());
      transaction.for_each([&](const std::uint64_t& element) { EXPECT_EQ(element, next++); });
      EXPECT_EQ(next, vector.size());
    }
    job.barrier();
    vector.close();
  });
}

TEST(CoherenceTest, NeighboursInAPageDoNotOverwriteEachOther) {
  const Servers servers;
  run_job(servers, 4, [](Job& job) {
    auto vector = SharedVector<std::uint16_t>::create(job, "v", 40'000);
    for (std::uint16_t round = 1; round <= 5; ++round) {
      for (std::uint64_t index = job.rank(); index < vector.size(); index += job.ranks()) {
        vector[index] = static_cast<std::uint16_t>(index * round);
      }
      job.barrier();
      for (std::uint64_t index = 0; index < vector.size(); ++index) {
        ASSERT_EQ(vector[index], static_cast<std::uint16_t>(index * round));
      }
      job.barrier();
    }
    vector.close();
  });
}

TEST(CoherenceTest, WithoutAnAcquireAnElementIsAnyOfThoseItWas) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 1000);
    const std::uint64_t other = 0x0102030405060708;
    if (job.rank() == 0) {
      vector[1] = other;
      vector.release();
    }
    const std::uint64_t seen = vector[1];  // Never half of it.
    EXPECT_TRUE(seen == 0 || seen == other) << seen;
    job.barrier();
    EXPECT_EQ(vector[1], other);
    vector.close();
  });
}

TEST(CoherenceTest, ACopyMayBeNewerThanALoadUntilTheNextAcquire) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<int>::create(job, "v", 1000);
    EXPECT_EQ(vector[1], 0);
    job.barrier();
    if (job.rank() == 0) {
      vector[1] = 42;
      vector.release();
      job.fetch_add("flag", 1);
    } else {
      while (job.fetch_add("flag", 0) == 0) {
      }
      std::array<int, 1> copy{};
      vector.copy_to(copy, 1);
      EXPECT_EQ(copy[0], 42);
      const int loaded = vector[1];
      EXPECT_TRUE(loaded == 0 || loaded == 42) << loaded;  // As the page stayed in memory, or did not.
      vector.acquire();
      EXPECT_EQ(vector[1], 42);
    }
    job.barrier();
    vector.close();
  });
}

TEST(CoherenceTest, AnUpdateIsAtomic) {
  const Servers servers(2);
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 10'000, small_pages());
    for (int round = 0; round < 100; ++round) {
      vector[1000 + job.rank()] += 1;  // In the same page, by other means.
      vector.update({1003, 2}, [](std::span<std::uint64_t> two) {
        EXPECT_EQ(two[0], two[1]);
        two[0] += 3;
        two[1] += 3;
      });
    }
    EXPECT_EQ(vector.statistics().exchanges - vector.statistics().retries, 100U);
    job.barrier();
    EXPECT_EQ(vector[1003], 900U);
    EXPECT_EQ(vector[1004], 900U);
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(vector[1000 + rank], 100U);
    }
    EXPECT_NE(refusal_of([&] {
                vector.update({511, 2}, [](std::span<std::uint64_t>) {});
              }).find("lie in more than one page of 4KiB"),
              std::string::npos);
    job.barrier();
    vector.close();
  });
}

TEST(CoherenceTest, ElementsThatLieInTwoBlocksAreBytes) {
  struct Odd {
    unsigned char bytes[7];
  };
  const Servers servers(2);
  run_job(servers, 2, [](Job& job) {
    SharedVectorOptions options = small_pages();
    options.stripe_bytes = 4096;
    auto vector = SharedVector<Odd>::create(job, "v", 9000, options);
    for (std::uint64_t index = job.rank(); index < vector.size(); index += 2) {
      std::fill_n(vector[index].bytes, 7, static_cast<unsigned char>(index));
    }
    job.barrier();
    for (std::uint64_t index = 0; index < vector.size(); ++index) {
      for (const unsigned char byte : vector[index].bytes) {
        ASSERT_EQ(byte, static_cast<unsigned char>(index));
      }
    }
    job.barrier();
    vector.close();
  });
}

TEST(SharedVectorTest, RanksThatWriteNeighboursMoveAtMostTwiceWhatChanged) {
  const Servers servers;
  run_job(servers, 4, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 65'536);
    const std::uint64_t sum = std::accumulate(vector.begin(), vector.end(), std::uint64_t{0});
    EXPECT_EQ(sum, 0U);
    job.barrier();
    for (std::uint64_t round = 1; round <= 5; ++round) {
      for (std::uint64_t index = job.rank(); index < vector.size(); index += job.ranks()) {
        vector[index] = (index + round) * 0x9e3779b97f4a7c15U;
      }
      vector.release();
    }
    const SharedStatistics counted = vector.statistics();
    const std::uint64_t changed = 5 * vector.size() / 4 * sizeof(std::uint64_t);
    EXPECT_EQ(counted.changed_bytes, changed);
    EXPECT_LE(counted.sent_bytes + 64 * counted.sends, 2 * changed);
    job.barrier();
    vector.close();
  });
}

TEST(SharedVectorTest, ReadOnlyAndLocalPhasesSendNoCoherenceMessages) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 300'000);
    vector.set_phase(Phase::local);
    SharedStatistics before = vector.statistics();
    for (std::uint64_t round = 1; round <= 4; ++round) {
      auto transaction = vector.read_write(vector.partition());
      transaction.for_each([&](std::uint64_t& element) { element += round; });
      transaction.commit();
      job.barrier();
    }
    SharedStatistics after = vector.statistics();
    EXPECT_EQ(after.questions, before.questions);
    EXPECT_EQ(after.news_bytes, before.news_bytes);
    // What transactions have left goes home in the background: the data's own messages.
    EXPECT_LE(after.changed_bytes - before.changed_bytes, 4 * vector.partition().count * sizeof(std::uint64_t));
    EXPECT_EQ(after.dropped_blocks, before.dropped_blocks);

    vector.set_phase(Phase::read_only);
    before = vector.statistics();
    for (int round = 0; round < 3; ++round) {
      auto transaction = vector.read(vector.all());
      transaction.for_each([](const std::uint64_t& element) { ASSERT_EQ(element, 10U); });
      job.barrier();
      if (round == 0) {
        after = vector.statistics();
        EXPECT_GT(after.fetched_bytes, before.fetched_bytes);
      }
    }
    EXPECT_EQ(vector.statistics().fetches, after.fetches);  // Everybody has a copy of all.
    EXPECT_EQ(vector.statistics().questions, before.questions);
    EXPECT_EQ(vector.statistics().sends, before.sends);
    EXPECT_EQ(vector.statistics().twin_bytes, 0U);
    EXPECT_NE(refusal_of([&] { vector.read_write(vector.all()); }).find("in its read-only phase"), std::string::npos);
    EXPECT_NE(refusal_of([&] { vector.append(); }).find("in its read-only phase"), std::string::npos);

    vector.set_phase(Phase::shared);
    vector[job.rank()] = job.rank();
    job.barrier();
    EXPECT_EQ(vector[0] + vector[1] + vector[2], 3U);
    EXPECT_GT(vector.statistics().questions, before.questions);
    EXPECT_NE(refusal_of([&] {
                vector.set_phase(job.rank() == 1 ? Phase::local : Phase::shared);
              }).find("but rank 1 sets vector 'v' to its local phase"),
              std::string::npos);
    vector.close();
  });
}

TEST(SharedVectorTest, AWriteInTheReadOnlyPhaseIsRefusedWhenItIsToGoHome) {
  const Servers servers;
  RankProcesses processes(1, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 1));
    {
      auto vector = SharedVector<int>::create(job, "v", 1000);
      vector.set_phase(Phase::read_only);
      vector[1] = 5;
      EXPECT_NE(refusal_of([&] { vector.set_phase(Phase::shared); }), "");
    }
    job.barrier();  // Which knows nothing of it any more.
    job.end();
  });
  processes.expect_success();
}

TEST(SharedVectorTest, AWriteInTheReadOnlyPhaseIsDiscardedWhenThatWasSaid) {
  const std::string discarded =
      "what was written to shared vector 'v' in its read-only phase is discarded: try again, and set another phase "
      "before you write to it";
  const Servers servers;
  run_job(servers, 2, [&](Job& job) {
    auto vector = SharedVector<int>::create(job, "v", 10'000, {.budget_bytes = 1 << 20});
    vector[5'000 + job.rank()] = 7;
    vector.set_phase(Phase::read_only);
    if (job.rank() == 1) {
      vector[5'000] = 8;
      std::vector<int> copied(2);
      EXPECT_EQ(refusal_of([&] { vector.copy_to(copied, 5'000); }), discarded);
      vector.copy_to(copied, 5'000);
      EXPECT_EQ(copied, (std::vector<int>{7, 7}));
      EXPECT_EQ(vector[5'000], 7);
      const auto transaction = vector.read(vector.all());
      std::fill(vector.begin(), vector.end(), 9);
      EXPECT_EQ(refusal_of([&] { vector.set_phase(Phase::shared); }), discarded);
    }
    vector.set_phase(Phase::shared);
    EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), 0), 14);
    vector.set_phase(Phase::read_only);
    vector[0] = 8;
    EXPECT_EQ(refusal_of([&] { vector.close(); }), discarded);
    EXPECT_EQ(vector[0], 0);
    vector.close();
  });
}

TEST(SharedVectorTest, MoreThanMemoryIsWrittenByAllAtOnce) {
  const Servers servers(2);
  run_job(servers, 2, [](Job& job) {
    SharedVectorOptions options;
    options.budget_bytes = 2 << 20;
    options.page_size_bytes = 16 << 10;
    options.scratch_folder = ".";
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 1 << 20, options);
    for (std::uint64_t round = 1; round <= 2; ++round) {
      for (std::uint64_t index = job.rank(); index < vector.size(); index += 2) {
        vector[index] = index * round;
      }
      job.barrier();
      for (std::uint64_t index = 0; index < vector.size(); index += 7) {
        ASSERT_EQ(vector[index], index * round);
      }
      job.barrier();
    }
    EXPECT_LE(vector.statistics().twin_bytes, options.budget_bytes / 4);
    EXPECT_GT(vector.statistics().spilled_bytes, 0U);
    vector.close();
  });
}

TEST(SharedVectorTest, ThreadsOfARankWorkWhileOthersAcquire) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 20'000, small_pages());
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::uint64_t round = 1; round <= 20; ++round) {
          for (std::uint64_t index = thread * 2 + job.rank(); index < vector.size(); index += 6) {
            vector[index] = round;
          }
          vector.release();
          vector.acquire();
          for (std::uint64_t index = thread * 2 + job.rank(); index < vector.size(); index += 6) {
            ASSERT_EQ(vector[index], round);
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    job.barrier();
    for (const std::uint64_t element : vector) {
      ASSERT_EQ(element, 20U);
    }
    job.barrier();
    vector.close();
  });
}

TEST(SharedVectorTest, WhatWasReleasedOutlivesTheServerOnceTheJobHasEnded) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "kept").string();
  std::ofstream(directory / "tiers.yaml") << "block: 64KiB\ntiers:\n  - {name: near, capacity: 4MiB}\n";
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndata_sets:\n  - {name: kept, store: " << file
                                         << ", size: 1MiB, tiers: " << (directory / "tiers.yaml") << "}\n";
  Servers servers(1, {"--config", directory / "node.yaml"});
  run_job(servers, 2, [&](Job& job) {
    auto vector = SharedVector<std::uint64_t>::open(job, "kept");
    vector[job.rank()] = 7;
    vector.close();
  });
  RankProcesses(1, [&](std::uint32_t) {
    while (!refusal_of([&] { open_store(servers.processes[0]->url("kept"), OpenMode::read_write); }).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }).expect_success();
  servers.processes[0]->signal(SIGKILL);
  std::vector<std::uint64_t> stored(2);
  std::ifstream(file).read(reinterpret_cast<char*>(stored.data()), 16);
  EXPECT_EQ(stored, (std::vector<std::uint64_t>{7, 7}));
}

TEST(SharedVectorTest, ADataSetOfSeveralServersIsLoadedAndNotOpened) {
  const Servers servers(2);
  RankProcesses(1, [&](std::uint32_t) {
    open_store("remote://" + servers.addresses + "/squares?layout=striped", OpenMode::create, 4096);
  }).expect_success();
  run_job(servers, 2, [&](Job& job) {
    EXPECT_NE(refusal_of([&] { SharedVector<int>::open(job, "squares"); }).find("striped over 2 servers"),
              std::string::npos);
    auto vector = SharedVector<int>::create(job, "squares", 1024);
    vector[1] = 1;
    vector.load("remote://" + servers.addresses + "/squares?layout=striped");
    EXPECT_EQ(vector[1], 0);
    vector.close();
  });
}

}  // namespace
}  // namespace tiermap
