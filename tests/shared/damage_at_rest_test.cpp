// Bits that change in a server's files underneath shared vectors: ranks are told which block, and never see them.
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "cluster/flip_in_file.hpp"
#include "shared/rank_processes.hpp"
#include "shared/shared_numbers.hpp"
#include "shared/small_pages.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block = 4096;
constexpr std::uint64_t words_of_a_block = block / sizeof(std::uint64_t);
constexpr std::uint64_t blocks = 64;
constexpr std::uint64_t damaged = 5;  ///< Which block.
constexpr int told_of_another = 10;   ///< An exit code.

std::uint64_t value_at(std::uint64_t index) {
  return index * 0x9E3779B97F4A7C15U + 1;
}

/// A server that has what it is given in files, and a job on it whose vector has come to rest there, damaged in one
/// block.
class DamageAtRestTest : public testing::Test {
 protected:
  using Words = SharedVector<std::uint64_t>;

  /// Each rank runs `body` when nobody has a page of the vector in memory, and one of its blocks is damaged. How it
  /// ends is the body's business.
  void run(std::uint32_t ranks, const std::function<void(Job&, Words&)>& body, const JobOptions& options = {}) {
    const pid_t server = servers.processes[0]->pid();
    processes.emplace(ranks, [&, server](std::uint32_t rank) {
      JobOptions here = servers.job(rank, ranks);
      here.node_cache_bytes = options.node_cache_bytes;
      Job job(here);
      auto vector = Words::create(job, "v", blocks * words_of_a_block, small_pages());
      if (rank == 0) {
        std::vector<std::uint64_t> content(vector.size());
        for (std::uint64_t index = 0; index < content.size(); ++index) {
          content[index] = value_at(index);
        }
        vector.copy_from(content, 0);
        const auto files = nameless_files_of(server);
        ASSERT_EQ(files.size(), 1U);
        flip_in_file(files[0], damaged * block + 100);
      }
      job.barrier();
      body(job, vector);
    });
  }
  /// In no block but the damaged one.
  static void expect_others_right(const Words& vector) {
    for (std::uint64_t index = 0; index < vector.size(); ++index) {
      if (index / words_of_a_block != damaged) {
        ASSERT_EQ(vector[index], value_at(index));
      }
    }
  }
  static void expect_named(const std::string& told) {
    EXPECT_NE(told.find("block 5 (bytes 20480 to 24575 here) is not what was written"), std::string::npos) << told;
  }
  /// Who is still at what comes before when another one has died of it is told there.
  [[noreturn]] static void touch(const Words& vector, const std::function<void()>& before) {
    if (!refusal_of(before).empty()) {
      ::_exit(told_of_another);
    }
    EXPECT_EQ(vector[damaged * words_of_a_block], 0U);
    ::_exit(1);
  }
  void expect_none_saw_it(std::uint32_t ranks) {
    int died = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
      const int code = processes->wait(rank);
      EXPECT_TRUE(code == 128 + SIGBUS || code == told_of_another) << code;
      died += code == 128 + SIGBUS ? 1 : 0;
    }
    EXPECT_GE(died, 1);
  }
  /// Without saying that the job ends, which cannot be said where a rank has died.
  [[noreturn]] static void end() { ::_exit(testing::Test::HasFailure() ? 1 : 0); }

  const TemporaryDirectory directory;
  const Servers servers{1, {"--config", configuration(directory)}};
  std::optional<RankProcesses> processes;

 private:
  static std::string configuration(const TemporaryDirectory& directory) {
    write_file(directory / "node.yaml",
               "listen: 127.0.0.1:0\ndirectory: " + directory.path() + "\ndirectory_size: 16MiB\n");
    return directory / "node.yaml";
  }
};

TEST_F(DamageAtRestTest, WhoTouchesThePageGetsASignalAndTheOthersTheRest) {
  run(2, [](Job& job, Words& vector) {
    expect_others_right(vector);
    if (job.rank() == 1) {
      job.barrier();
      EXPECT_EQ(vector[damaged * words_of_a_block], 0U);
      end();
    }
    const std::string told = refusal_of([&] {
      job.barrier();
      job.barrier();  // Until the other one has died of it.
    });
    EXPECT_NE(told.find("rank 1 at "), std::string::npos) << told;
    expect_others_right(vector);  // It has these.
    end();
  });
  EXPECT_EQ(processes->wait(1), 128 + SIGBUS);
  EXPECT_EQ(processes->wait(0), 0);
}

TEST_F(DamageAtRestTest, CopiesAreRefusedInWords) {
  run(2, [](Job& job, Words& vector) {
    std::vector<std::uint64_t> all(vector.size());
    expect_named(refusal_of([&] { vector.copy_to(all); }));
    std::vector<std::uint64_t> before(damaged * words_of_a_block);
    vector.copy_to(before);
    for (std::uint64_t index = 0; index < before.size(); ++index) {
      ASSERT_EQ(before[index], value_at(index));
    }
    job.barrier();
    vector.close();
    job.end();
  });
  processes->expect_success();
}

TEST_F(DamageAtRestTest, AnUpdateAndAReleaseThereAreRefusedInWords) {
  run(1, [](Job&, Words& vector) {
    const VectorRange there{damaged * words_of_a_block + 3, 2};
    expect_named(refusal_of([&] { vector.update(there, [](std::span<std::uint64_t> some) { some[0] = 1; }); }));
    const std::array<std::uint64_t, 2> some = {1, 2};
    expect_named(refusal_of([&] { vector.copy_from(some, there.first); }));
    end();
  });
  processes->expect_success();
}

TEST_F(DamageAtRestTest, WhatIsWrittenAsAWholeIsGoodAgain) {
  run(2, [](Job& job, Words& vector) {
    const std::uint64_t first = damaged * words_of_a_block;
    if (job.rank() == 0) {
      std::vector<std::uint64_t> content(words_of_a_block);
      for (std::uint64_t index = 0; index < content.size(); ++index) {
        content[index] = value_at(first + index);
      }
      vector.copy_from(content, first);
    }
    job.barrier();
    for (std::uint64_t index = 0; index < vector.size(); ++index) {
      ASSERT_EQ(vector[index], value_at(index));
    }
    job.barrier();
    vector.close();
    job.end();
  });
  processes->expect_success();
}

TEST_F(DamageAtRestTest, WhatIsWrittenInTheReadOnlyPhaseIsDiscardedWhateverFailedBefore) {
  run(1, [](Job& job, Words& vector) {
    std::vector<std::uint64_t> all(vector.size());
    expect_named(refusal_of([&] { vector.copy_to(all); }));
    vector.set_phase(Phase::read_only);
    vector[3] = 42;
    const std::string told = refusal_of([&] { vector.set_phase(Phase::shared); });
    EXPECT_NE(told.find("in its read-only phase is discarded"), std::string::npos) << told;
    vector.set_phase(Phase::shared);
    EXPECT_EQ(vector[3], value_at(3));
    vector.close();
    job.end();
  });
  processes->expect_success();
}

TEST_F(DamageAtRestTest, WhatAllReadTogetherIsHandedToNobody) {
  run(3, [](Job&, Words& vector) {
    const VectorRange before{0, damaged * words_of_a_block};
    {
      auto together = vector.read_together(before);
      together.for_each([index = std::uint64_t{0}](std::uint64_t value) mutable {
        EXPECT_EQ(value, value_at(index));
        ++index;
      });
    }
    touch(vector, [&] {
      const auto together = vector.read_together({before.count, words_of_a_block});
      EXPECT_EQ(vector[before.count], 0U);
    });
  });
  expect_none_saw_it(3);
}

TEST_F(DamageAtRestTest, WhatANodeKeepsIsNotWhatIsDamaged) {
  JobOptions options;
  options.node_cache_bytes = 1 << 20;
  run(
      2,
      [](Job& job, Words& vector) {
        vector.set_phase(Phase::read_only);
        expect_others_right(vector);
        touch(vector, [&] { job.barrier(); });
      },
      options);
  expect_none_saw_it(2);
}

// Of a job that goes on without lost ranks.
TEST_F(DamageAtRestTest, WhoCannotTakeOverALostRanksLockIsWhomTheNextOneIsToldOf) {
  const SharedNumbers numbers;
  processes.emplace(3, [&, server = servers.processes[0]->pid()](std::uint32_t rank) {
    JobOptions options = servers.job(rank, 3);
    options.go_on_without_lost_ranks = true;
    Job job(options);
    SharedVectorOptions large_pages;
    large_pages.scratch_folder = ".";
    auto vector = Words::create(job, "v", blocks * words_of_a_block, large_pages);
    if (rank == 0) {
      vector.copy_from(std::vector<std::uint64_t>(vector.size(), 7), 0);
    }
    job.barrier();
    const JobLock held = rank == 0 ? job.lock("held") : JobLock(nullptr, "");
    if (rank == 0) {
      vector[(damaged + 1) * words_of_a_block] = 8;  // In the same page, which is here before the damage is done.
    }
    if (rank == 1) {
      vector[damaged * words_of_a_block] = 8;  // Comes home when the page is acquired, into the damaged block.
    }
    numbers[0].fetch_add(1);
    ASSERT_TRUE(numbers.reaches(0, 3));
    if (rank == 0) {
      flip_in_file(nameless_files_of(server).at(0), damaged * block + 100);
      vector[(damaged + 1) * words_of_a_block] = 9;
      vector.release();
      numbers[1] = 1;
      ::raise(SIGKILL);
    }
    ASSERT_TRUE(numbers.reaches(1, 1));
    if (rank == 1) {
      expect_named(refusal_of([&] { job.lock("held"); }));
      const std::string told = refusal_of([&] { job.barrier(); });
      EXPECT_NE(told.find("rank 1 could not see what the lock 'held' protects, which rank 0 was lost with"),
                std::string::npos)
          << told;
      numbers[2] = 1;
      end();
    }
    ASSERT_TRUE(numbers.reaches(2, 1));
    JobLock lock = job.lock("held");
    EXPECT_EQ(lock.lost_holder(), 1U);
    lock.unlock();
    end();
  });
  EXPECT_EQ(processes->wait(0), 128 + SIGKILL);
  EXPECT_EQ(processes->wait(1), 0);
  EXPECT_EQ(processes->wait(2), 0);
}

}  // namespace
}  // namespace tiermap
