// What ranks of a program gather, little or much: the same for all, whichever way it comes.
#include <random>

#include "command_line/ranks.hpp"
#include "shared/rank_processes.hpp"

namespace tiermap {
namespace {

std::vector<std::uint64_t> numbers_of(std::uint32_t rank, std::uint64_t scale) {
  std::mt19937_64 random(rank);
  std::vector<std::uint64_t> numbers(rank == 1 ? 0 : scale + rank * 7);
  for (std::uint64_t& number : numbers) {
    number = random();
  }
  return numbers;
}

void expect_gathered(const std::vector<std::string>& server, const std::vector<std::uint64_t>& scales,
                     const std::string& host_of_second) {
  const Servers servers(1, server);
  RankProcesses processes(4, [&](std::uint32_t rank) {
    ::setenv("TIERMAP_SERVERS", servers.addresses.c_str(), 1);
    if (rank == 1) {
      ::setenv("TIERMAP_RANK_HOST", host_of_second.c_str(), 1);
    }
    Ranks ranks(JobRank{rank, 4});
    for (const std::uint64_t scale : scales) {
      std::vector<std::uint64_t> expected;
      for (std::uint32_t other = 0; other < 4; ++other) {
        const std::vector<std::uint64_t> more = numbers_of(other, scale);
        expected.insert(expected.end(), more.begin(), more.end());
      }
      EXPECT_TRUE(ranks.gather_much(numbers_of(rank, scale)) == expected) << scale;
    }
    ranks.end();
  });
  processes.expect_success();
}

TEST(GatheringTest, MuchIsGatheredAsLittleIs) {
  expect_gathered({"--memory", "64MiB"}, {0, 10, 90'000, 700'000, 90'000}, "");
}

TEST(GatheringTest, WhereServersHaveNoRoomItComesAllTheSame) {
  expect_gathered({"--memory", "1MiB"}, {10, 200'000, 100'000}, "");
}

TEST(GatheringTest, WhereRanksDoNotReachEachOtherItComesAllTheSame) {
  expect_gathered({"--memory", "64MiB"}, {200'000, 100'000}, "192.0.2.1");  // Of documentation: nobody's.
}

}  // namespace
}  // namespace tiermap
