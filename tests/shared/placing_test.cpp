// On which server what of a shared vector lies: near the rank whose part it is, or that wants it most. Ranks and
// servers are on nodes of their own by the names of their hosts.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <numeric>
#include <thread>

#include "cluster/flip_in_file.hpp"
#include "cluster/two_nodes.hpp"
#include "shared/rank_processes.hpp"
#include "shared/small_pages.hpp"
#include "store/file_descriptor.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using Numbers = SharedVector<std::uint64_t>;
constexpr std::uint64_t elements = 1 << 18;  ///< 2 MiB.

SharedVectorOptions small_stripes(HomePlacement placement = HomePlacement::striped) {
  SharedVectorOptions options = small_pages();
  options.stripe_bytes = 16384;
  options.placement = placement;
  return options;
}

/// What went to servers and came from them since `before`.
struct Travelled {
  explicit Travelled(const SharedStatistics& now, const SharedStatistics& before = {})
      : all(now.fetched_bytes + now.sent_bytes - before.fetched_bytes - before.sent_bytes),
        near(now.near_bytes - before.near_bytes) {}
  std::uint64_t all;
  std::uint64_t near;
};

/// The `nth` of `parts` equal ones.
VectorRange part(std::uint64_t nth, std::uint64_t parts) {
  return {elements / parts * nth, elements / parts};
}

/// Reads and writes each element once.
void add_one_to_each(Numbers& vector, VectorRange range) {
  std::vector<std::uint64_t> copy(range.count);
  vector.copy_to(copy, range.first);
  for (std::uint64_t& one : copy) {
    ++one;
  }
  vector.copy_from(copy, range.first);
}

TEST(PlacingTest, ByPartitionWhatARankHasIsNearIt) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    for (const HomePlacement placement : {HomePlacement::striped, HomePlacement::by_partition}) {
      auto vector = Numbers::create(job, "v", elements, small_stripes(placement));
      add_one_to_each(vector, vector.partition());
      const Travelled travelled(vector.statistics());
      EXPECT_GE(travelled.all, elements * 8);  // Half of it, there and back.
      EXPECT_EQ(travelled.near, placement == HomePlacement::striped ? travelled.all / 2 : travelled.all);
      job.barrier();
      EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), std::uint64_t{0}), elements);
      job.barrier();
      vector.destroy();
    }
  });
}

TEST(PlacingTest, ByScoreWhatARankUsesComesNearIt) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    std::iota(vector.span(vector.partition()).begin(), vector.span(vector.partition()).end(), vector.partition().first);
    job.barrier();
    for (std::uint64_t round = 1; round <= 3; ++round) {  // Each time the other one's half.
      const VectorRange used = part((job.rank() + round) % 2, 2);
      vector.place_by_score();  // By what was written, and then by what was used in the round before.
      add_one_to_each(vector, used);
      vector.place_by_score();
      const SharedStatistics before = vector.statistics();
      add_one_to_each(vector, used);
      const Travelled travelled(vector.statistics(), before);
      EXPECT_GE(travelled.all, elements * 8);
      EXPECT_EQ(travelled.near, travelled.all);
      job.barrier();
      for (std::uint64_t index = 0; index < elements; ++index) {
        ASSERT_EQ(vector[index], index + 2 * round);
      }
      job.barrier();
    }
    EXPECT_GE(vector.statistics().placed_bytes, elements * 8);
    vector.close();
  });
}

TEST(PlacingTest, PagesInFramesStayWhatTheyAreAndGoHomeWhereverThatIs) {
  const Servers servers(2);
  run_job_on_nodes(servers, 3, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes(HomePlacement::by_partition));
    for (std::uint64_t round = 1; round <= 4; ++round) {
      const std::uint64_t other = (job.rank() + round) % 3;
      for (std::uint64_t index = other; index < elements; index += 3) {
        vector[index] += index;
      }
      job.barrier();
      add_one_to_each(vector, {other * 1000, 10});
      vector.place_by_score();  // As a barrier.
      for (std::uint64_t index = 0; index < elements; ++index) {
        const bool counted = index % 1000 < 10 && index / 1000 < 3;
        ASSERT_EQ(vector[index], round * (index + (counted ? 1 : 0)));
      }
      job.barrier();
    }
    vector.close();
  });
}

/// As `ip netns exec` does it: UCX looks for devices in /sys. By a process that has no threads.
void enter_node(const TwoNodes& nodes, std::uint32_t node) {
  const std::string path = "/run/netns/" + nodes.name + "-" + std::to_string(node);
  const FileDescriptor space(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(space.valid() && ::setns(space.get(), CLONE_NEWNET) == 0) << path;
  ASSERT_TRUE(::unshare(CLONE_NEWNS) == 0 && ::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) == 0);
  static_cast<void>(::umount2("/sys", MNT_DETACH));
  ASSERT_EQ(::mount(path.c_str(), "/sys", "sysfs", 0, nullptr), 0);
}

/// A server and a rank on each node, without names of hosts: a rank is near the server whose address is its node's.
TEST(PlacingTest, WhatIsNearDoesNotGoOverTheCable) {
  const TwoNodes nodes;
  if (!nodes.made) {
    GTEST_SKIP() << "network namespaces cannot be made here: root and iproute2 are needed";
  }
  ::setenv("UCX_TLS", "tcp,self", 1);
  const TemporaryDirectory directory(".");
  std::vector<std::unique_ptr<ChildProcess>> servers;
  for (int node = 1; node <= 2; ++node) {
    const std::string file = directory / ("node" + std::to_string(node) + ".yaml");
    std::ofstream(file) << "listen: 10.77.0." << node
                        << ":7070\nmemory: 64MiB\nusers: [{name: ann, secret: correct horse}]\n";
    const std::string program = std::string(TIERMAP_BINARY_FOLDER) + "/tiermap";
    servers.push_back(std::make_unique<ChildProcess>(nodes.in(node, {program, "serve", "--config", file})));
    EXPECT_EQ(servers.back()->line(), "listening on 10.77.0." + std::to_string(node) + ":7070, 0 data sets");
  }
  const auto bytes_on_cable = [&](HomePlacement placement, bool by_score) {
    const std::uint64_t before = nodes.received(1) + nodes.received(2);
    RankProcesses processes(2, [&](std::uint32_t rank) {
      enter_node(nodes, rank + 1);
      JobOptions options;
      options.rank = rank;
      options.ranks = 2;
      options.servers = "10.77.0.1:7070,10.77.0.2:7070";
      Job job(options);
      auto vector = Numbers::create(job, "v", elements, small_stripes(placement));
      for (int round = 0; round < 10; ++round) {
        add_one_to_each(vector, vector.partition());
        if (by_score && round == 0) {
          vector.place_by_score();
        }
      }
      const Travelled travelled(vector.statistics());
      EXPECT_GE(travelled.all, 10 * elements * 8);
      job.barrier();
      EXPECT_EQ(vector[elements / 2 - 1] + vector[elements / 2], 20U);
      vector.close();
      job.end();
    });
    processes.expect_success();
    return nodes.received(1) + nodes.received(2) - before;
  };
  const std::uint64_t striped = bytes_on_cable(HomePlacement::striped, false);
  const std::uint64_t by_partition = bytes_on_cable(HomePlacement::by_partition, false);
  const std::uint64_t by_score = bytes_on_cable(HomePlacement::striped, true);
  std::cout << "bytes on the cable: " << striped << " striped, " << by_partition << " by partition, " << by_score
            << " by score after the first of ten rounds\n";
  EXPECT_GE(striped, 10 * elements * 8);  // Half of what both read and write, ten times.
  EXPECT_LE(by_partition, striped / 10);
  EXPECT_LE(by_score, striped / 4);  // The first time, and to its new place.
}

TEST(PlacingTest, WhatNobodyWantsMoreStaysWhereItIs) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    std::vector<std::uint64_t> all(elements);
    vector.copy_to(all);  // By both ranks.
    vector.place_by_score();
    vector.place_by_score();  // And by none.
    EXPECT_EQ(vector.statistics().placed_bytes, 0U);
    const SharedStatistics before = vector.statistics();
    vector.copy_to(all);
    const Travelled travelled(vector.statistics(), before);
    EXPECT_EQ(travelled.near, travelled.all / 2);
    job.barrier();
    vector.close();
  });
}

TEST(PlacingTest, WhereAllServersAreNearNothingMoves) {
  const Servers servers(2);
  run_job(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes(HomePlacement::by_partition));
    add_one_to_each(vector, vector.partition());
    vector.place_by_score();
    EXPECT_EQ(vector.statistics().placed_bytes, 0U);
    const Travelled travelled(vector.statistics());
    EXPECT_EQ(travelled.near, travelled.all);
    vector.close();
  });
}

TEST(PlacingTest, WithOneServerItIsABarrier) {
  const Servers servers(1);
  run_job_on_nodes(servers, 3, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes(HomePlacement::by_partition));
    for (std::uint64_t round = 1; round <= 5; ++round) {
      vector[job.rank()] = round;
      vector.place_by_score();
      EXPECT_EQ(vector[0] + vector[1] + vector[2], 3 * round);
      job.barrier();
    }
    vector.close();
  });
}

/// All that is done with a vector besides, before and after.
TEST(PlacingTest, WhatIsKeptOfAVectorElsewhereHoldsAfterIt) {
  const Servers servers(2);
  const TemporaryDirectory directory(".");
  const std::string saved = directory / "saved";
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = servers.job_on_nodes(rank, 2, 1);  // On one node, for its cache.
    options.node_cache_bytes = 4 << 20;
    Job job(options);
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    auto appender = vector.append();
    const auto read_all = [&](std::uint64_t expected) {
      vector.set_phase(Phase::read_only);
      EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), std::uint64_t{0}), expected);
      vector.place_by_score();
      std::uint64_t sum = 0;
      vector.read_together(vector.all()).for_each([&](std::uint64_t one) { sum += one; });
      EXPECT_EQ(sum, expected);
      vector.set_phase(Phase::shared);
    };
    std::uint64_t sum = 0;
    for (std::uint64_t round = 1; round <= 3; ++round) {
      for (std::uint64_t index = 0; index < 10'000; ++index) {
        appender.push_back(round);
      }
      appender.commit();
      vector.update({elements - 2, 2}, [](std::span<std::uint64_t> two) { two[0] = ++two[1]; });
      job.barrier();
      EXPECT_EQ(vector.appended(), 2 * round * 10'000);
      sum += 2 * round * 10'000 + 4;
      read_all(sum);
      job.barrier();
    }
    vector.save(saved);
    vector.set_phase(Phase::local);
    vector.place_by_score();
    vector[elements / 2 + job.rank()] = 7;
    vector.set_phase(Phase::shared);
    read_all(sum + 14);
    vector.load(saved);
    read_all(sum);
    vector.destroy();
    auto next = Numbers::create(job, "v", elements, small_stripes());
    EXPECT_EQ(next.appended(), 0U);
    EXPECT_EQ(next[0], 0U);
    next.close();
    job.end();
  });
  processes.expect_success();
}

/// While another thread of each rank goes on.
TEST(PlacingTest, OtherThreadsWaitForIt) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    std::atomic<bool> done{false};
    std::uint64_t updates = 0;
    std::thread other([&] {
      while (!done.load()) {
        vector.update({8, 1}, [](std::span<std::uint64_t> one) { ++one[0]; });
        vector[100 + job.rank()] = ++updates;
        vector[elements / 2 + updates % (elements / 4) * 2 + job.rank()] = updates;
        vector.acquire();
        vector.release();
      }
    });
    for (int round = 0; round < 12; ++round) {
      std::vector<std::uint64_t> copy(elements / 2);
      vector.copy_to(copy, (job.rank() + static_cast<std::uint64_t>(round)) % 2 * elements / 2);
      vector.place_by_score();
    }
    done = true;
    other.join();
    EXPECT_GE(vector.statistics().placed_bytes, elements * 8);
    std::uint64_t all = 0;
    for (const auto& bytes : job.gather(std::as_bytes(std::span(&updates, 1)))) {
      std::uint64_t one = 0;
      std::memcpy(&one, bytes.data(), sizeof(one));
      all += one;
    }
    job.barrier();
    EXPECT_EQ(vector[8], all);
    EXPECT_EQ(vector[100 + job.rank()], updates);
    const std::uint64_t last = elements / 2 + updates % (elements / 4) * 2 + job.rank();
    EXPECT_TRUE(last < elements && vector[last] == updates) << last;
    vector.close();
  });
}

TEST(PlacingTest, WhatIsUnderWayOnOneRankIsRefusedOnAll) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    {
      auto together = vector.read_together({0, 100});
      const std::string told = refusal_of([&] { vector.place_by_score(); });
      EXPECT_NE(told.find("rank 0 reads vector 'v' together: have all ranks be done"), std::string::npos) << told;
    }
    {
      auto writer = vector.write({0, 1000});
      if (job.rank() == 1) {
        std::ranges::fill(writer.next(), 3);
        static_cast<void>(writer.next());
      }
      const std::string told = refusal_of([&] { vector.place_by_score(); });
      EXPECT_NE(told.find("rank 1 has not committed what it writes or appends to vector 'v'"), std::string::npos)
          << told;
      writer.commit();
    }
    add_one_to_each(vector, part(1 - job.rank(), 2));
    vector.place_by_score();
    EXPECT_EQ(vector[999], 4U);
    EXPECT_EQ(vector[1000], 1U);
    job.barrier();
    const std::string told =
        refusal_of([&] { job.rank() == 0 ? vector.place_by_score() : vector.set_phase(Phase::local); });
    EXPECT_NE(told.find("rank 0 places vector 'v' by score, but rank 1 sets vector 'v' to its local phase"),
              std::string::npos)
        << told;
    vector.close();
  });
}

TEST(PlacingTest, WhatCannotBePlacedSaysSo) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\nmemory: 64MiB\ndata_sets:\n- {name: set, store: "
                                         << (directory / "set") << ", size: 1MiB}\n";
  const Servers servers(1, {"--config", directory / "node.yaml"});
  RankProcesses processes(2, [&](std::uint32_t rank) {
    Job job(servers.job(rank, 2));
    auto set = Numbers::open(job, "set", small_stripes());
    EXPECT_NE(refusal_of([&] { set.place_by_score(); }).find("is a data set of its server"), std::string::npos);
    set.close();
    const std::string told = refusal_of([&] { Numbers::open(job, "set", small_stripes(HomePlacement::by_partition)); });
    EXPECT_NE(told.find("leave out its placement"), std::string::npos) << told;
    const std::string disagreement = refusal_of([&] {
      Numbers::create(job, "v", elements,
                      small_stripes(rank == 0 ? HomePlacement::striped : HomePlacement::by_partition));
    });
    EXPECT_NE(disagreement.find("placed by partition"), std::string::npos) << disagreement;
    job.end();
    JobOptions options = servers.job(rank, 2);
    options.name = "going-on";
    options.go_on_without_lost_ranks = true;
    Job other(options);
    auto vector = Numbers::create(other, "v", elements, small_stripes(HomePlacement::by_partition));
    EXPECT_NE(refusal_of([&] { vector.place_by_score(); }).find("cannot place vector 'v'"), std::string::npos);
    vector.close();
    other.end();
  });
  processes.expect_success();
}

/// The servers' names of data sets are of up to 64 letters, which have the job's in them.
TEST(PlacingTest, VectorsOfTheLongestNamesArePlacedAnyNumberOfTimes) {
  const Servers servers(2);
  run_job_on_nodes(servers, 2, [](Job& job) {
    const std::string name(64 - std::strlen("job.1.") - 1, 'v');
    auto one = Numbers::create(job, name + "1", elements, small_stripes());
    auto other = Numbers::create(job, name + "2", elements, small_stripes());
    for (std::uint64_t round = 1; round <= 12; ++round) {
      add_one_to_each(one, part((job.rank() + round) % 2, 2));
      add_one_to_each(other, part((job.rank() + round) % 2, 2));
      one.place_by_score();
      other.place_by_score();
      EXPECT_EQ(one[round] + other[elements - round], 2 * round);
      job.barrier();
    }
    EXPECT_GE(one.statistics().placed_bytes, elements * 8);
    one.close();
    other.close();
  });
}

TEST(PlacingTest, WithoutRoomItStaysWhereItWas) {
  const Servers servers(2, {"--memory", "1536KiB"});
  run_job_on_nodes(servers, 2, [](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    for (int turn = 0; turn < 3; ++turn) {
      add_one_to_each(vector, part(job.rank(), 2));
      const std::string told = refusal_of([&] { vector.place_by_score(); });
      const bool refused = told.find("rank 0 cannot have room for vector 'v'") != std::string::npos;
      EXPECT_TRUE(refused && told.find("stays where it was") != std::string::npos) << told;
    }
    job.barrier();
    EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), std::uint64_t{0}), 3 * elements);
    job.barrier();
    vector.destroy();
    auto small = Numbers::create(job, "w", elements / 4, small_stripes());  // All of the room is there.
    add_one_to_each(small, small.partition());
    small.place_by_score();
    EXPECT_GT(small.statistics().placed_bytes, 0U);
    small.close();
  });
}

TEST(PlacingTest, WithADamagedBlockItStaysWhereItWas) {
  const TemporaryDirectory directory(".");
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndirectory: " << directory.path()
                                         << "\ndirectory_size: 64MiB\n";
  const Servers servers(2, {"--config", directory / "node.yaml"});
  const pid_t first_server = servers.processes[0]->pid();
  run_job_on_nodes(servers, 2, [&](Job& job) {
    auto vector = Numbers::create(job, "v", elements, small_stripes());
    const VectorRange own = part(1 - job.rank(), 2);
    const std::vector<std::uint64_t> content(own.count, 5);
    vector.copy_from(content, own.first);
    job.barrier();
    if (job.rank() == 0) {
      const auto files = nameless_files_of(first_server);
      ASSERT_EQ(files.size(), 1U);
      flip_in_file(files[0], 100);
    }
    const std::string told = refusal_of([&] { vector.place_by_score(); });
    const bool named = told.find("rank 1 cannot move vector 'v': server 127.0.0.1:") != std::string::npos;
    EXPECT_TRUE(named && told.find("block 0 ") != std::string::npos && told.ends_with("stays where it was")) << told;
    job.barrier();
    vector.copy_from(content, own.first);  // Which makes it good.
    vector.place_by_score();
    EXPECT_GE(vector.statistics().placed_bytes, elements * 4);
    EXPECT_EQ(std::accumulate(vector.begin(), vector.end(), std::uint64_t{0}), 5 * elements);
    job.barrier();
    vector.close();
  });
}

/// At any moment of it; how it goes on is that of any death.
TEST(PlacingTest, WhoIsKilledInTheMidstOfItEndsTheJob) {
  const Servers servers(2);
  for (int turn = 0; turn < 6; ++turn) {
    RankProcesses processes(2, [&](std::uint32_t rank) {
      Job job(servers.job_on_nodes(rank, 2, 2));
      auto vector = Numbers::create(job, "v", elements, small_stripes());
      const std::string told = refusal_of([&] {
        for (std::uint64_t round = 0;; ++round) {
          std::vector<std::uint64_t> copy(elements / 2);
          vector.copy_to(copy, (job.rank() + round) % 2 * elements / 2);
          if (round == 2 && rank == 1) {
            std::thread([turn] {
              std::this_thread::sleep_for(std::chrono::milliseconds(turn));
              ::kill(::getpid(), SIGKILL);
            }).detach();
          }
          vector.place_by_score();
        }
      });
      EXPECT_NE(told.find("rank 1 at "), std::string::npos) << told;
    });
    EXPECT_EQ(processes.wait(0), 0);
    EXPECT_EQ(processes.wait(1), 128 + SIGKILL);
  }
  run_job(servers, 2, [](Job& job) { job.barrier(); });
}

}  // namespace
}  // namespace tiermap
