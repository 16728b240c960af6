// Shared vectors as they are made: what cannot be made leaves nothing behind, and names may be as long as is said.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "shared/bare_rank.hpp"
#include "shared/rank_processes.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

using Numbers = SharedVector<std::uint64_t>;

TEST(MakingTest, OptionsThatCannotBeAreRefusedBeforeAnythingIsMade) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    SharedVectorOptions no_budget;
    no_budget.budget_bytes = 0;
    EXPECT_NE(refusal_of([&] { Numbers::create(job, "v", 1000, no_budget); }).find("0 is out of range"),
              std::string::npos);
    SharedVectorOptions little_budget;
    little_budget.budget_bytes = 100;
    EXPECT_NE(refusal_of([&] {
                Numbers::create(job, "v", 1000, little_budget);
              }).find("shared vector 'v', whose pages have three quarters of its budget of 100: "),
              std::string::npos);
    SharedVectorOptions odd_pages;
    odd_pages.page_size_bytes = 3000;
    odd_pages.stripe_bytes = 30'000;
    EXPECT_NE(refusal_of([&] { Numbers::create(job, "v", 1000, odd_pages); }).find("page size 3000"),
              std::string::npos);
    auto vector = Numbers::create(job, "v", 100'000);
    vector[99'998 + job.rank()] = 7;
    job.barrier();
    EXPECT_EQ(vector[99'998] + vector[99'999], 14U);
    job.barrier();
    vector.close();
  });
}

TEST(MakingTest, StripesLongerThanAnythingAreRefused) {
  const Servers servers(4);
  run_job(servers, 2, [](Job& job) {
    for (const int bits : {63, 62, 47}) {
      SharedVectorOptions options;
      options.stripe_bytes = std::uint64_t{1} << bits;
      const std::string told = refusal_of([&] { Numbers::create(job, "v", 1000, options); });
      EXPECT_NE(told.find("cannot have stripes of "), std::string::npos) << told;
    }
  });
}

/// As where all ranks have made it, and none gets the frames for it.
TEST(MakingTest, WhatWasMadeByHalvesIsNotTakenForOneOfAnotherSize) {
  const Servers servers;
  RankProcesses processes(2, [&](std::uint32_t rank) {
    if (rank == 0) {
      BareRank bare(servers, 0, 2);
      EXPECT_EQ(bare.start(0, JobRequest::open, {8000, 1, 0, 0}, "v").wait().status, 0);
      for (const char* count : {"100000", "1000"}) {
        const std::string making = std::string("makes vector 'v' of ") + count +
                                   " elements of 8 bytes (u) in pages of " + "64KiB and stripes of 1MiB";
        EXPECT_EQ(bare.start(0, JobRequest::collective, {}, making).wait().status, 0);
      }
      EXPECT_EQ(bare.start(0, JobRequest::collective, {}, "ends the job").wait().status, 0);
      EXPECT_EQ(bare.start(0, JobRequest::leave, {}, "").wait().status, 0);
      return;
    }
    Job job(servers.job(1, 2));
    const std::string told = refusal_of([&] { Numbers::create(job, "v", 100'000); });
    EXPECT_NE(told.find("vector 'v' was to be made before with other sizes"), std::string::npos) << told;
    auto vector = Numbers::create(job, "v", 1000);
    EXPECT_EQ(vector[999], 0U);
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(MakingTest, ADataSetWithoutElementsIsRefusedAsItIsOpened) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "empty").string();
  std::ofstream(file).close();
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndata_sets:\n  - {name: empty, store: " << file
                                         << "}\n";
  const Servers servers(1, {"--config", directory / "node.yaml"});
  run_job(servers, 2, [](Job& job) {
    const std::string told = refusal_of([&] { Numbers::open(job, "empty"); });
    EXPECT_NE(told.find("'empty' is a data set of 0 bytes, and has no elements"), std::string::npos) << told;
  });
}

TEST(MakingTest, ADataSetOfHalfAnElementIsRefusedAsItIsOpened) {
  const TemporaryDirectory directory(".");
  const std::string file = std::filesystem::absolute(directory / "odd").string();
  std::ofstream(file) << "twelve bytes";
  std::ofstream(directory / "node.yaml") << "listen: 127.0.0.1:0\ndata_sets:\n  - {name: odd, store: " << file << "}\n";
  const Servers servers(1, {"--config", directory / "node.yaml"});
  run_job(servers, 2, [](Job& job) {
    EXPECT_EQ(refusal_of([&] { Numbers::open(job, "odd"); }),
              "shared vector 'odd' is a data set of 12 bytes, no whole number of elements of 8 bytes: open it as a "
              "vector of what it holds");
  });
}

TEST(MakingTest, WhereOneServerHasNoRoomTheOthersKeepTheirs) {
  const Servers large(1, {"--memory", "8MiB"});
  const Servers small(1, {"--memory", "1MiB"});
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = large.job(rank, 2);
    options.servers += "," + small.addresses;
    Job job(options);
    constexpr std::uint64_t mebibyte = (1 << 20) / sizeof(std::uint64_t);
    for (int turn = 0; turn < 4; ++turn) {
      const std::string told = refusal_of([&] { Numbers::create(job, "v" + std::to_string(turn), 6 * mebibyte); });
      EXPECT_NE(told.find("of 3MiB does not fit: 1MiB are left"), std::string::npos) << told;
    }
    auto vector = Numbers::create(job, "v0", 2 * mebibyte);
    vector[2 * mebibyte - 1 - rank] = 5;
    job.barrier();
    EXPECT_EQ(std::count(vector.end() - 2, vector.end(), 5U), 2);
    job.barrier();
    vector.close();
    job.end();
  });
  processes.expect_success();
}

TEST(MakingTest, AnUpdateOfALargePageTakesWhatIsSaid) {
  const Servers servers(1, {"--memory", "64MiB"});
  run_job(servers, 1, [](Job& job) {
    SharedVectorOptions options;
    options.page_size_bytes = 8 << 20;
    options.stripe_bytes = 8 << 20;
    options.budget_bytes = 128 << 20;
    auto vector = SharedVector<std::uint8_t>::create(job, "v", 8 << 20, options);
    constexpr std::uint64_t most = 3 << 20;
    const auto every_other = [](std::span<std::uint8_t> bytes) {
      for (std::size_t index = 0; index < bytes.size(); index += 2) {
        ++bytes[index];
      }
    };
    vector.update({1, most}, every_other);
    EXPECT_EQ(std::count(vector.begin(), vector.end(), 1U), most / 2);
    const std::string told = refusal_of([&] { vector.update({0, most + 1}, every_other); });
    EXPECT_NE(told.find("one update takes up to 3MiB"), std::string::npos) << told;
    vector.close();
  });
}

TEST(MakingTest, OneThatIsClosedIsDestroyedToo) {
  const Servers servers(1, {"--memory", "8MiB"});
  run_job(servers, 2, [](Job& job) {
    for (int turn = 0; turn < 3; ++turn) {
      auto vector = Numbers::create(job, "v", (6 << 20) / sizeof(std::uint64_t));
      vector[job.rank()] = 1;
      vector.close();
      vector.destroy();
      vector.destroy();
    }
  });
}

TEST(MakingTest, NamesOfJobsAndVectorsMayBeAsLongAsIsSaid) {
  const Servers servers(2);
  RankProcesses processes(2, [&](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 2);
    options.name = std::string(64, 'j');
    Job job(options);
    const std::string name(62, 'v');
    auto one = Numbers::create(job, name + "1", 1000);
    auto other = Numbers::create(job, name + "2", 1000);
    one[rank] = 1;
    other[rank] = 2;
    job.barrier();
    EXPECT_EQ(one[0] + one[1], 2U);
    EXPECT_EQ(other[0] + other[1], 4U);
    for (const std::string& refused : {name + "of 64", std::string("a/b")}) {
      const std::string told = refusal_of([&] { Numbers::create(job, refused, 1000); });
      EXPECT_NE(told.find("a vector cannot be called '" + refused + "': write up to 63 letters"), std::string::npos)
          << told;
    }
    job.barrier();
    one.close();
    other.close();
    job.end();
  });
  processes.expect_success();
}

}  // namespace
}  // namespace tiermap
