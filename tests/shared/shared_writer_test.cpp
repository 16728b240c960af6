// Writers and appenders of shared vectors: what goes home without frames, and in which order.
#include <algorithm>
#include <cerrno>
#include <numeric>

#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

TEST(SharedWriterTest, AWriterFetchesNothing) {
  const Servers servers(3);
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 500'000);
    vector[job.rank()] = 99;  // What frames have of it is home first, and is overwritten.
    {
      auto writer = vector.write(vector.partition());
      std::uint64_t next = vector.partition().first;
      const std::uint64_t fetches = vector.statistics().fetches;
      for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
        std::iota(piece.begin(), piece.end(), next);
        next += piece.size();
      }
      writer.commit();
      EXPECT_EQ(vector.statistics().fetches, fetches);
    }
    job.barrier();
    for (std::uint64_t index = 2; index < vector.size(); ++index) {
      ASSERT_EQ(vector[index], index);
    }
    job.barrier();
    vector.close();
  });
}

TEST(SharedWriterTest, OfAWriterThatDoesNotCommitAllRanksSeeTheSame) {
  const Servers servers;
  const SharedNumbers seen;
  run_job(servers, 2, [&](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 500'000);
    if (job.rank() == 0) {
      auto writer = vector.write(vector.all());
      for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
        std::ranges::fill(piece, 7);
        EXPECT_GE(vector[0] + 7, 7U);  // A frame has what was there before it went home.
      }
    }
    job.barrier();
    seen[job.rank()] = vector[0];
    job.barrier();
    vector.close();
  });
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(SharedWriterTest, AWriterMayEndAfterItsVectorIsClosed) {
  const Servers servers;
  run_job(servers, 1, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 500'000);
    auto writer = vector.write(vector.all());
    for (auto piece = writer.next(); !piece.empty(); piece = writer.next()) {
      std::ranges::fill(piece, 7);
    }
    vector.close();
  });
}

TEST(SharedWriterTest, AppendedElementsComeInEachRanksOrder) {
  const Servers servers;
  run_job(servers, 3, [](Job& job) {
    constexpr std::uint64_t each = 50'000;
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 3 * each);
    {
      auto appender = vector.append();
      for (std::uint64_t index = 1; index <= each; ++index) {
        appender.push_back(job.rank() * each + index);
      }
      appender.commit();
      EXPECT_EQ(vector.statistics().fetches, 0U);
    }
    job.barrier();
    EXPECT_EQ(vector.appended(), 3 * each);
    std::vector<std::uint64_t> last(3);
    for (const std::uint64_t element : vector) {
      const std::uint64_t rank = (element - 1) / each;
      ASSERT_EQ(element, rank * each + ++last[rank]);
    }
    EXPECT_EQ(last, std::vector<std::uint64_t>(3, each));
    auto full = vector.append();
    full.push_back(1);
    EXPECT_NE(refusal_of([&] { full.commit(); }).find("do not fit"), std::string::npos);
    job.barrier();
    vector.close();
  });
}

TEST(SharedWriterTest, WhatDoesNotFitTakesNoPlaces) {
  const Servers servers;
  run_job(servers, 2, [](Job& job) {
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 100);
    const auto append = [&](std::uint64_t count) {
      auto appender = vector.append();
      for (std::uint64_t index = 0; index < count; ++index) {
        appender.push_back(job.rank() + 1);
      }
      appender.commit();
    };
    append(30);
    job.barrier();
    for (int turn = 0; turn < 3; ++turn) {
      const std::string told = refusal_of([&] { append(41); });
      EXPECT_NE(told.find("has 100 elements, and 60 places are taken: 41 more do not fit"), std::string::npos) << told;
    }
    EXPECT_EQ(vector.appended(), 60U);
    job.barrier();
    append(20);
    job.barrier();
    EXPECT_EQ(vector.appended(), 100U);
    EXPECT_EQ(std::count(vector.begin(), vector.end(), 1U), 50);
    EXPECT_EQ(std::count(vector.begin(), vector.end(), 2U), 50);
    EXPECT_NE(refusal_of([&] { append(1); }).find("100 places are taken"), std::string::npos);
    vector.close();
  });
}

TEST(SharedWriterTest, AVectorThatIsMadeAnewIsAppendedToFromItsBeginning) {
  const Servers servers(2);
  run_job(servers, 2, [](Job& job) {
    for (int turn = 1; turn <= 2; ++turn) {
      auto vector = SharedVector<int>::create(job, "v", 2);
      auto appender = vector.append();
      appender.push_back(turn);
      appender.commit();
      job.barrier();
      EXPECT_EQ(vector.appended(), 2U);
      EXPECT_EQ(vector[0], turn);
      EXPECT_EQ(vector[1], turn);
      vector.destroy();
    }
  });
}

}  // namespace
}  // namespace tiermap
