// What all ranks read together comes down a tree of them: it is what it would be otherwise, and its home sends it to
// few.
#include <array>
#include <cstring>
#include <fstream>

#include "shared/rank_processes.hpp"
#include "shared/small_pages.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t page_bytes = 16 << 10;
constexpr std::uint64_t elements = (4 << 20) / sizeof(std::uint64_t);
constexpr std::uint64_t bytes_in_all = elements * sizeof(std::uint64_t);

SharedVectorOptions roomy() {
  SharedVectorOptions options;
  options.page_size_bytes = page_bytes;
  options.budget_bytes = 32 << 20;
  options.scratch_folder = ".";
  return options;
}

/// Of all ranks together.
struct Traffic {
  std::uint64_t fetched = 0;
  std::uint64_t pulled = 0;
  std::uint64_t handed = 0;
  std::uint64_t most_handed = 0;
};

Traffic traffic(Job& job, const SharedStatistics& before, const SharedStatistics& after) {
  const std::array<std::uint64_t, 3> own{after.fetched_bytes - before.fetched_bytes,
                                         after.pulled_bytes - before.pulled_bytes,
                                         after.handed_bytes - before.handed_bytes};
  job.barrier();  // All have what they asked for.
  Traffic sum;
  for (const std::vector<std::byte>& bytes : job.gather(std::as_bytes(std::span(own)))) {
    std::array<std::uint64_t, 3> one{};
    std::memcpy(one.data(), bytes.data(), sizeof(one));
    sum.fetched += one[0];
    sum.pulled += one[1];
    sum.handed += one[2];
    sum.most_handed = std::max(sum.most_handed, one[2]);
  }
  return sum;
}

void fill(Job& job, SharedVector<std::uint64_t>& vector, std::uint64_t factor) {
  auto writer = vector.write(vector.partition());
  std::uint64_t next = vector.partition().first;
  for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
    for (std::uint64_t& element : piece) {
      element = factor * next++;
    }
  }
  writer.commit();
  job.barrier();
}

template <typename Transaction>
void expect_filled(Transaction&& transaction, std::uint64_t factor) {
  std::uint64_t next = 0;
  transaction.for_each([&](const std::uint64_t& element) { ASSERT_EQ(element, factor * next++); });
  EXPECT_EQ(next, elements);
}

/// Ranks whose nodes are so many.
JobOptions on_nodes(const Servers& servers, std::uint32_t rank, std::uint32_t ranks, std::uint32_t nodes) {
  JobOptions options = servers.job(rank, ranks);
  options.host = host_of_node(rank % nodes);
  return options;
}

void expect_traffic(std::uint32_t ranks, std::uint32_t nodes, std::uint32_t degree, std::uint64_t from_home) {
  const Servers servers(2);
  RankProcesses processes(ranks, [&](std::uint32_t rank) {
    JobOptions where = on_nodes(servers, rank, ranks, nodes);
    where.tree_degree = degree;
    Job job(where);
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
    fill(job, vector, 3);
    SharedStatistics before = vector.statistics();
    expect_filled(vector.read_together(vector.all()), 3);
    job.barrier();
    const Traffic tree = traffic(job, before, vector.statistics());
    EXPECT_EQ(tree.fetched, from_home * bytes_in_all);
    EXPECT_EQ(tree.pulled, (ranks - from_home) * bytes_in_all);
    EXPECT_EQ(tree.handed, tree.pulled);
    EXPECT_LE(tree.most_handed, 2 * degree * bytes_in_all);
    // Once more: everybody has all of it.
    before = vector.statistics();
    expect_filled(vector.read_together(vector.all()), 3);
    EXPECT_EQ(vector.statistics().fetches + vector.statistics().pulls, before.fetches + before.pulls);
    // By itself, each asks the home.
    job.barrier();
    fill(job, vector, 5);
    before = vector.statistics();
    expect_filled(vector.read(vector.all()), 5);
    const Traffic alone = traffic(job, before, vector.statistics());
    EXPECT_EQ(alone.fetched, ranks * bytes_in_all);
    EXPECT_EQ(alone.pulled + alone.handed, 0U);
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(ReadTogetherTest, OneNodeGetsItOnce) {
  expect_traffic(5, 1, 2, 1);
}

TEST(ReadTogetherTest, TheHomeSendsItToAsManyNodesAsTheDegreeSays) {
  expect_traffic(4, 4, 1, 1);
  expect_traffic(4, 4, 2, 2);
  expect_traffic(8, 8, 2, 2);
}

TEST(ReadTogetherTest, EachOfSeveralNodesGetsItOnce) {
  expect_traffic(6, 3, 2, 2);
}

TEST(ReadTogetherTest, InTheReadOnlyPhaseNobodyAsksWhatHasChanged) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
    fill(job, vector, 7);
    vector.set_phase(Phase::read_only);
    const SharedStatistics before = vector.statistics();
    expect_filled(vector.read_together(vector.all()), 7);
    EXPECT_EQ(vector.statistics().questions, before.questions);
    const Traffic sum = traffic(job, before, vector.statistics());
    EXPECT_EQ(sum.fetched, bytes_in_all);
    vector.set_phase(Phase::local);
    EXPECT_NE(refusal_of([&] { vector.read_together(vector.all()); }).find("in its local phase"), std::string::npos);
    vector.close();
  });
}

TEST(ReadTogetherTest, WhatWasWrittenBeforeItIsSeen) {
  const Servers servers(2);
  run_job(servers, 4, [](Job& job) {
    SharedVectorOptions options = roomy();
    options.budget_bytes = 2 << 20;  // Not all of it fits.
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, options);
    for (std::uint64_t round = 1; round <= 6; ++round) {
      for (std::uint64_t index = job.rank(); index < elements; index += 4) {
        vector[index] = index * round;  // Nobody has released it.
      }
      expect_filled(vector.read_together(vector.all()), round);
      job.barrier();
    }
    EXPECT_GT(vector.statistics().pulls + vector.statistics().handed_bytes, 0U);
    vector.close();
  });
}

/// What an element was, and was not seen to be any more, is not seen again, however old what others hand on is.
TEST(ReadTogetherTest, NothingIsSeenThatIsOlderThanWhatWasAcquired) {
  const Servers servers;
  RankProcesses processes(4, [&](std::uint32_t rank) {
    JobOptions where = servers.job(rank, 4);
    where.tree_degree = 1;
    Job job(where);
    SharedVectorOptions options = roomy();
    options.page_size_bytes = 4096;
    options.budget_bytes = 1 << 20;
    constexpr std::uint64_t count = 1 << 17;  // As large as the budget.
    auto vector = SharedVector<std::uint64_t>::create(job, "v", count, options);
    {
      const auto together = vector.read_together(vector.all());
      for (std::uint64_t round = 1; round <= 15; ++round) {
        // Whoever has the lock sees what the last one wrote, and writes what is more.
        JobLock lock = job.lock("turn");
        const std::uint64_t before = vector[0];
        for (std::uint64_t index = 0; index < count; index += 4096) {
          ASSERT_EQ(vector[index], before);
          vector[index] = before + 1;
        }
        lock.unlock();
        for (std::uint64_t index = 0; index < count; index += 4096) {
          ASSERT_GE(vector[index], before + 1);
        }
      }
    }
    job.barrier();
    EXPECT_EQ(vector[4096], 60U);
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(ReadTogetherTest, WithoutRoomForWhatOthersAskLaterItIsTheSame) {
  const Servers servers;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions where = servers.job(rank, 3);
    where.relay_bytes = 0;
    Job job(where);
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
    fill(job, vector, 11);
    {
      auto together = vector.read_together(vector.all());
      std::this_thread::sleep_for(rank * 50ms);
      expect_filled(together, 11);
    }
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(ReadTogetherTest, ADestroyedVectorIsNotHandedOn) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    for (std::uint64_t factor = 1; factor <= 3; ++factor) {
      auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
      fill(job, vector, factor);
      expect_filled(vector.read_together(vector.all()), factor);
      vector.destroy();
    }
  });
}

TEST(ReadTogetherTest, WhatIsLoadedIsSeen) {
  const TemporaryDirectory directory(".");
  const Servers servers;
  const std::string path = std::filesystem::absolute(directory / "saved").string();
  run_job(servers, 3, [&](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
    fill(job, vector, 2);
    vector.save(path);
    fill(job, vector, 3);
    expect_filled(vector.read_together(vector.all()), 3);
    vector.set_phase(Phase::shared);
    vector.load(path);
    expect_filled(vector.read_together(vector.all()), 2);
    vector.close();
  });
}

TEST(ReadTogetherTest, RanksOfAServerOnIpv6ReachEachOtherThere) {
  Servers servers(0);
  ChildProcess server({"tiermap", "serve", "--listen", "[::1]:0", "--memory", "64MiB"});
  const std::string said = server.line();
  if (!said.starts_with("listening on ")) {
    GTEST_SKIP() << "this machine has no IPv6 loopback address";
  }
  servers.addresses = said.substr(13, said.find(',') - 13);
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 5000, small_pages());
    vector[job.rank()] = job.rank() + 1;
    {
      auto together = vector.read_together({0, 5000});
      std::uint64_t sum = 0;
      together.for_each([&](std::uint64_t value) { sum += value; });
      EXPECT_EQ(sum, 6U);
    }
    vector.close();
  });
}

TEST(ReadTogetherTest, WithSecretsRanksProveThemToEachOther) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\nusers:\n"
                                         << "  - {name: ann, secret: a long secret}\n";
  ::setenv("TIERMAP_USER", "ann", 1);
  ::setenv("TIERMAP_SECRET", "a long secret", 1);
  const Servers servers(1, {"--config", directory / "node.yaml"});
  run_job(servers, 3, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, roomy());
    fill(job, vector, 13);
    expect_filled(vector.read_together(vector.all()), 13);
    vector.close();
  });
  ::unsetenv("TIERMAP_USER");
  ::unsetenv("TIERMAP_SECRET");
}

TEST(ReadTogetherTest, DisagreementsAreNamedOnEveryRank) {
  const Servers servers;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions where = servers.job(rank, 3);
    where.tree_degree = 2 + rank / 2;
    where.host = rank == 1 ? "192.0.2.1" : "";  // Of documentation: nobody's.
    Job job(where);
    auto vector = SharedVector<int>::create(job, "v", 1000);
    const auto refused = [&](const std::function<void()>& work, const std::string& part) {
      const std::string refusal = refusal_of(work);
      EXPECT_NE(refusal.find(part), std::string::npos) << refusal;
    };
    refused([&] { vector.read_together({0, 100 + rank / 2}); }, "but rank 2 reads elements 0 to 101 of vector 'v' tog");
    refused([&] { vector.read_together({0, 1001}); }, "has 1000 elements");
    refused([&] { vector.read_together({0, 100}); }, "but rank 2 joins a tree of degree 3");
    vector.close();
    job.end();
    where.tree_degree = 2;
    where.name = "again";
    Job again(where);
    auto other = SharedVector<int>::create(again, "v", 1000);
    refused([&] { other.read_together({0, 100}); }, "rank 1 cannot listen: ");
    EXPECT_EQ(other.read({0, 100}).next()[0], 0);
    other.close();
    again.end();
    where.tree_degree = 17;
    refused([&] { Job none(where); }, "cannot have degree 17");
  });
  processes.expect_success();
}

/// As where it throws: the others cannot have a page any more, and it ends as it meant to.
TEST(ReadTogetherTest, ARankOfWhichOthersAskPagesMayEndMeanwhile) {
  const Servers servers;
  for (int round = 0; round < 20; ++round) {
    RankProcesses processes(3, [&](std::uint32_t rank) {
      SharedVectorOptions options = small_pages();
      options.budget_bytes = 1 << 20;
      JobOptions where = servers.job(rank, 3);
      where.name += std::to_string(round);
      const std::string told = refusal_of([&] {
        Job job(where);
        auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, options);
        auto together = vector.read_together(vector.all());
        if (rank == 0) {
          std::this_thread::sleep_for(20ms);
          throw StoreError(EIO, "the first rank ends");
        }
        std::vector<std::jthread> readers;
        for (std::uint64_t reader = 0; reader < 8; ++reader) {
          readers.emplace_back([&, at = reader * 12'345]() mutable {
            while (vector[at] == 0) {
              at = (at + 512 * 17) % elements;
            }
          });
        }
      });
      EXPECT_EQ(told, "the first rank ends");
    });
    ASSERT_EQ(processes.wait(0), 0);
    EXPECT_EQ(processes.wait(1), 128 + SIGBUS);
    EXPECT_EQ(processes.wait(2), 128 + SIGBUS);
  }
}

/// The first rank, from which others get everything, ends while they read: they are told, or a page cannot be had.
TEST(ReadTogetherTest, ARankThatDiesOrHangsIsNamed) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ntimeout_seconds: 1\n";
  for (const int signal_number : {SIGKILL, SIGSTOP}) {
    const Servers servers(1, {"--config", directory / "node.yaml"});
    RankProcesses processes(4, [&](std::uint32_t rank) {
      JobOptions where = servers.job(rank, 4);
      where.timeout = 1000ms;
      where.tree_degree = 1;
      Job job(where);
      SharedVectorOptions options = roomy();
      options.budget_bytes = 1 << 20;
      auto vector = SharedVector<std::uint64_t>::create(job, "v", elements, options);
      const std::string told = refusal_of([&] {
        for (int turn = 0;; ++turn) {
          auto together = vector.read_together(vector.all());
          if (rank == 1 && turn == 3) {
            ::raise(signal_number);
            std::this_thread::sleep_for(60s);
          }
          together.for_each([](const std::uint64_t& element) { ASSERT_EQ(element, 0U); });
        }
      });
      EXPECT_NE(told.find("rank 1 at "), std::string::npos) << told;
    });
    for (const std::uint32_t rank : {0U, 2U, 3U}) {
      const int code = processes.wait(rank);
      EXPECT_TRUE(code == 0 || code == 128 + SIGBUS) << "rank " << rank << " ends with " << code;
    }
  }
}

}  // namespace
}  // namespace tiermap
