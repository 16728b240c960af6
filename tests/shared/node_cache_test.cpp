// Ranks of one node that read what nobody changes: it comes to the node about once, and is what it would be otherwise.
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "shared/rank_processes.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using namespace std::chrono_literals;
using Numbers = SharedVector<std::uint64_t>;

constexpr std::uint64_t elements = (4 << 20) / sizeof(std::uint64_t);
constexpr std::uint64_t bytes_in_all = elements * sizeof(std::uint64_t);
constexpr std::uint64_t roomy_cache = 16 << 20;

SharedVectorOptions with_budget(std::uint64_t bytes, std::uint64_t page_bytes = 16 << 10) {
  SharedVectorOptions options;
  options.page_size_bytes = page_bytes;
  options.budget_bytes = bytes;
  options.scratch_folder = ".";
  return options;
}

/// Ranks whose nodes are so many.
JobOptions on_nodes(const Servers& servers, std::uint32_t rank, std::uint32_t ranks, std::uint32_t nodes,
                    std::uint64_t cache_bytes) {
  JobOptions options = servers.job(rank, ranks);
  options.host = host_of_node(rank % nodes);
  options.node_cache_bytes = cache_bytes;
  return options;
}

std::uint64_t value(std::uint64_t index, std::uint64_t round) {
  return (index + 1) * (2 * round + 1);
}

/// By all ranks, each its part.
void fill(Job& job, Numbers& numbers, std::uint64_t round) {
  auto writer = numbers.write(numbers.partition());
  std::uint64_t next = numbers.partition().first;
  for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
    for (std::uint64_t& element : piece) {
      element = value(next++, round);
    }
  }
  writer.commit();
  job.barrier();
}

void expect_filled(Numbers& numbers, std::uint64_t round) {
  std::uint64_t next = 0;
  auto transaction = numbers.read(numbers.all());
  transaction.for_each([&](const std::uint64_t& element) {
    if (const std::uint64_t expected = value(next++, round); element != expected) {  // There are millions of them.
      FAIL() << "element " << next - 1 << ": found " << element << ", expected " << expected;
    }
  });
  EXPECT_EQ(next, numbers.size());
}

/// Bytes, of all ranks together.
struct Sources {
  std::uint64_t home = 0;
  std::uint64_t node = 0;
};

Sources sources_of_all(Job& job, const SharedStatistics& before, const SharedStatistics& after) {
  const std::array<std::uint64_t, 2> own{after.fetched_bytes - before.fetched_bytes,
                                         after.node_bytes - before.node_bytes};
  Sources sum;
  for (const std::vector<std::byte>& bytes : job.gather(std::as_bytes(std::span(own)))) {
    std::array<std::uint64_t, 2> one{};
    std::memcpy(one.data(), bytes.data(), sizeof(one));
    sum.home += one[0];
    sum.node += one[1];
  }
  return sum;
}

/// All ranks read all of it at the same time, which none of them has.
void expect_sources(std::uint32_t ranks, std::uint32_t nodes, std::uint64_t cache_bytes, std::uint64_t least_times,
                    double most_times) {
  const Servers servers(2);
  RankProcesses processes(ranks, [&](std::uint32_t rank) {
    Job job(on_nodes(servers, rank, ranks, nodes, cache_bytes));
    auto numbers = Numbers::create(job, "v", elements, with_budget(32 << 20));
    fill(job, numbers, 1);
    numbers.set_phase(Phase::read_only);
    const SharedStatistics before = numbers.statistics();
    expect_filled(numbers, 1);
    const Sources sum = sources_of_all(job, before, numbers.statistics());
    EXPECT_EQ(sum.home + sum.node, ranks * bytes_in_all);
    EXPECT_GE(sum.home, least_times * bytes_in_all);
    EXPECT_LE(static_cast<double>(sum.home), most_times * static_cast<double>(bytes_in_all));
    EXPECT_EQ(numbers.statistics().questions, before.questions);
    if (rank == 0) {
      std::cout << ranks << " ranks on " << nodes << " nodes: " << sum.home << " bytes from homes, " << sum.node
                << " from the nodes' caches\n"
                << std::flush;
    }
    numbers.close();
    job.end();
  });
  processes.expect_success();
}

TEST(NodeCacheTest, WithoutItEachRankFetchesAll) {
  expect_sources(4, 1, 0, 4, 4);
}

/// They are at the same places at the same time: who wants what another is fetching waits for it.
TEST(NodeCacheTest, RanksOfANodeFetchABlockOnce) {
  expect_sources(2, 1, roomy_cache, 1, 1.25);
  expect_sources(4, 1, roomy_cache, 1, 1.25);
  expect_sources(8, 1, roomy_cache, 1, 1.25);
}

TEST(NodeCacheTest, EachNodeFetchesItOnce) {
  expect_sources(4, 2, roomy_cache, 2, 2.5);
}

TEST(NodeCacheTest, ARankThatIsAloneOnItsNodeHasNone) {
  expect_sources(2, 2, roomy_cache, 2, 2);
}

TEST(NodeCacheTest, WhatTheFirstHasReadTheOthersFetchNothingOf) {
  const Servers servers(2);
  RankProcesses processes(3, [&](std::uint32_t rank) {
    Job job(on_nodes(servers, rank, 3, 1, roomy_cache));
    // Of which the last block is no whole one.
    auto numbers = Numbers::create(job, "v", elements - 100, with_budget(1 << 20));
    fill(job, numbers, 3);
    numbers.set_phase(Phase::read_only);
    const SharedStatistics before = numbers.statistics();
    if (rank == 0) {
      expect_filled(numbers, 3);
      EXPECT_EQ(numbers.statistics().fetched_bytes - before.fetched_bytes, numbers.size() * sizeof(std::uint64_t));
    }
    job.barrier();
    const SharedStatistics first = numbers.statistics();
    expect_filled(numbers, 3);  // None of them has room for all of it.
    EXPECT_EQ(numbers.statistics().fetches, first.fetches);
    EXPECT_GT(numbers.statistics().node_bytes, first.node_bytes);
    numbers.close();
    job.end();
  });
  processes.expect_success();
}

/// Between phases something is written, by ranks, by a store or by nobody, and vectors come and go.
TEST(NodeCacheTest, WhatWasWrittenBetweenPhasesIsSeen) {
  const TemporaryDirectory directory(".");
  const Servers servers(2);
  const std::string path = std::filesystem::absolute(directory / "saved").string();
  for (const std::uint64_t cache_bytes : {roomy_cache, std::uint64_t{256} << 10U}) {
    RankProcesses processes(3, [&](std::uint32_t rank) {
      JobOptions options = on_nodes(servers, rank, 3, 1, cache_bytes);
      options.name = "of-" + std::to_string(cache_bytes);
      Job job(options);
      for (std::uint64_t turn = 0; turn < 2; ++turn) {  // Of the same name; other ones.
        auto numbers = Numbers::create(job, "v", elements, with_budget(1 << 20));
        auto others = Numbers::create(job, "w", elements / 3, with_budget(1 << 20, 4096));
        fill(job, others, 50 + turn);
        others.set_phase(Phase::read_only);
        for (std::uint64_t round = 1; round <= 3; ++round) {
          numbers.set_phase(round == 2 ? Phase::local : Phase::shared);
          const VectorRange part = numbers.partition();
          for (std::uint64_t index = part.first; index < part.first + part.count; ++index) {
            numbers[index] = value(index, turn * 10 + round);
          }
          numbers.set_phase(Phase::read_only);
          expect_filled(numbers, turn * 10 + round);
          numbers.set_phase(round == 1 ? Phase::local : Phase::shared);
          numbers.set_phase(Phase::read_only);  // Nobody wrote.
          expect_filled(numbers, turn * 10 + round);
          expect_filled(others, 50 + turn);
          if (round == 1) {
            numbers.save(path);
          }
        }
        numbers.set_phase(Phase::shared);
        numbers.load(path);
        numbers.set_phase(Phase::read_only);
        expect_filled(numbers, turn * 10 + 1);
        EXPECT_GT(numbers.statistics().node_bytes, 0U);
        numbers.destroy();
        others.destroy();
      }
      job.end();
    });
    processes.expect_success();
  }
}

/// Ranks that stand still with claims on what others wait for, for less than the timeout.
TEST(NodeCacheTest, NobodyWaitsForLongForWhoStandsStill) {
  const Servers servers;
  RankProcesses processes(4, [&](std::uint32_t rank) {
    JobOptions options = on_nodes(servers, rank, 4, 1, 2 << 20);
    options.timeout = 30s;
    Job job(options);
    auto numbers = Numbers::create(job, "v", elements, with_budget(1 << 20));
    fill(job, numbers, 1);
    numbers.set_phase(Phase::read_only);
    for (int round = 0; round < 20; ++round) {
      expect_filled(numbers, 1);
    }
    numbers.close();
    job.end();
  });
  for (int round = 0; round < 40; ++round) {
    const std::uint32_t rank = static_cast<std::uint32_t>(round % 3);
    std::this_thread::sleep_for(10ms);
    processes.signal(rank, SIGSTOP);
    std::this_thread::sleep_for(10ms);
    processes.signal(rank, SIGCONT);
  }
  processes.expect_success();
}

TEST(NodeCacheTest, RanksThatDisagreeAboutItAreAllToldSo) {
  const Servers servers;
  RankProcesses processes(3, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 3);
    options.node_cache_bytes = rank == 1 ? 0 : 1 << 20;
    const std::string refusal = refusal_of([&] { Job job(options); });
    EXPECT_EQ(refusal,
              "job 'job': rank 0 says that the cache of a node has 1MiB, but rank 1 that it has 0: start all alike");
  });
  processes.expect_success();
}

TEST(NodeCacheTest, ItsSizeComesFromTheEnvironmentToo) {
  const Servers servers;
  ::setenv("TIERMAP_NODE_CACHE", "1MiB", 1);
  run_job(servers, 2, [](Job& job) {
    auto numbers = Numbers::create(job, "v", 100'000);
    numbers.set_phase(Phase::read_only);
    EXPECT_EQ(numbers[job.rank() * 50'000], 0U);
    job.barrier();
    EXPECT_EQ(numbers[(1 - job.rank()) * 50'000], 0U);
    EXPECT_GT(numbers.statistics().node_bytes, 0U);
    numbers.close();
  });
  RankProcesses processes(1, [&](std::uint32_t) {
    for (const char* wrong : {"4KiB", "128TiB"}) {
      ::setenv("TIERMAP_NODE_CACHE", wrong, 1);
      EXPECT_NE(refusal_of([&] { Job job(servers.job(0, 1)); }).find("choose 0, or 64KiB to 64TiB"), std::string::npos);
    }
    ::setenv("TIERMAP_NODE_CACHE", "much", 1);
    EXPECT_NE(refusal_of([&] { Job job(servers.job(0, 1)); }).find("TIERMAP_NODE_CACHE"), std::string::npos);
  });
  ::unsetenv("TIERMAP_NODE_CACHE");
  processes.expect_success();
}

bool memory_is_mapped() {
  std::ifstream file("/proc/self/maps");
  std::stringstream maps;
  maps << file.rdbuf();
  return maps.str().find("tiermap-node-cache") != std::string::npos;
}

bool memory_is_open() {
  return std::ranges::any_of(std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
    std::error_code gone;  // The iterator's own.
    return std::filesystem::read_symlink(entry.path(), gone).string().find("tiermap-node-cache") != std::string::npos;
  });
}

/// It has no name, and nobody has it open: it goes with the processes, however they end.
TEST(NodeCacheTest, NothingIsLeftOfIt) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    {
      Job job(on_nodes(servers, rank, 2, 1, roomy_cache));
      auto numbers = Numbers::create(job, "v", elements, with_budget(1 << 20));
      EXPECT_FALSE(memory_is_mapped());
      numbers.set_phase(Phase::read_only);
      EXPECT_TRUE(memory_is_mapped());
      EXPECT_FALSE(memory_is_open());
      numbers.close();
      job.end();
    }
    EXPECT_FALSE(memory_is_mapped());
  });
  processes.expect_success();
}

/// While all read, at any moment. Who is left is told who it was, or a page cannot be had.
TEST(NodeCacheTest, ARankThatIsKilledIsNamed) {
  const Servers servers;
  for (int turn = 0; turn < 5; ++turn) {
    RankProcesses processes(4, [&](std::uint32_t rank) {
      JobOptions options = on_nodes(servers, rank, 4, 1, 1 << 20);
      options.name = "turn-" + std::to_string(turn);
      Job job(options);
      auto numbers = Numbers::create(job, "v", elements, with_budget(1 << 20));
      fill(job, numbers, 1);
      const std::string told = refusal_of([&] {
        for (;;) {
          numbers.set_phase(Phase::read_only);
          if (rank == 1 && numbers.statistics().fetches > 100U) {
            std::thread([turn] {
              std::this_thread::sleep_for(turn * 3ms);
              ::raise(SIGKILL);
            }).detach();
          }
          expect_filled(numbers, 1);
          numbers.set_phase(Phase::shared);
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
