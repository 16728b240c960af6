// What is read again and again stays in the tiers: all of it where it fits, else as much as they have room for.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "observe/published_tiers.hpp"
#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"
#include "tier/tiered_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 16 << 10;

TierOptions in_memory(const std::string& name, std::uint64_t blocks) {
  TierOptions tier;
  tier.name = name;
  tier.capacity_bytes = blocks * block_bytes;
  return tier;
}

class SteadyReadingTest : public testing::Test {
 protected:
  /// Reads of the backing store, and blocks moved between tiers, over so many passes.
  struct Work {
    std::uint64_t read_behind = 0;
    std::uint64_t promoted = 0;
    std::uint64_t demoted = 0;
  };

  void open(std::uint64_t blocks, std::vector<TierOptions> tiers) {
    backing_ = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(blocks * block_bytes));
    TieringOptions options;
    options.tiers = std::move(tiers);
    options.block_bytes = block_bytes;
    options.organize_seconds = 0.001;
    store_ = std::make_unique<TieredStore>(backing_, options);
  }
  Work seen() const {
    Work work{backing_->read_bytes() / block_bytes};
    for (const TierReport& report : store_->reports()) {
      work.promoted += report.promoted_in;
      work.demoted += report.demoted_in;
    }
    return work;
  }
  struct Part {
    std::uint64_t first = 0;
    std::uint64_t blocks = 0;
  };

  Work pass(int times) { return pass(times, {0, backing_->size_bytes() / block_bytes}); }
  /// Reads the blocks in order, each by so many pieces.
  Work pass(int times, const Part& part, std::uint64_t pieces = 1) {
    const Work before = seen();
    std::vector<char> buffer(block_bytes / pieces);
    for (int time = 0; time < times; ++time) {
      for (std::uint64_t piece = part.first * pieces; piece < (part.first + part.blocks) * pieces; ++piece) {
        store_->read(buffer.data(), buffer.size(), piece * buffer.size());
        std::this_thread::sleep_for(std::chrono::microseconds(200 / pieces));
      }
    }
    const Work after = seen();
    return {after.read_behind - before.read_behind, after.promoted - before.promoted, after.demoted - before.demoted};
  }

  /// Until all are in their tiers, which does not take many.
  void await_pass_without_reads_behind() { await_pass({0, backing_->size_bytes() / block_bytes}, 0); }
  void await_pass(const Part& part, std::uint64_t most_read_behind) {
    std::uint64_t read_behind = most_read_behind + 1;
    for (int time = 0; time < 100 && read_behind > most_read_behind; ++time) {
      read_behind = pass(1, part).read_behind;
    }
    ASSERT_LE(read_behind, most_read_behind);
  }

  std::shared_ptr<FaultyStore> backing_;
  std::unique_ptr<TieredStore> store_;
};

TEST_F(SteadyReadingTest, what_fits_exactly_is_read_behind_no_more) {
  const std::vector<std::vector<TierOptions>> tiers = {{in_memory("one", 64)},
                                                       {in_memory("fast", 32), in_memory("slow", 32)}};
  for (const std::vector<TierOptions>& some : tiers) {
    open(64, some);
    await_pass_without_reads_behind();
    const Work steady = pass(5);
    EXPECT_EQ(steady.read_behind, 0U) << some.size() << " tiers";
    EXPECT_EQ(steady.promoted + steady.demoted, 0U) << some.size() << " tiers";
  }
}

TEST_F(SteadyReadingTest, what_nearly_fits_is_read_behind_no_more) {
  open(62, {in_memory("fast", 32), in_memory("slow", 32)});
  await_pass_without_reads_behind();
  EXPECT_EQ(pass(5).read_behind, 0U);
}

// 80 of 320, where the tiers have room for 256, and a sixteenth of it is kept free.
constexpr std::uint64_t most_of_a_little_too_much = 100;

TEST_F(SteadyReadingTest, of_what_is_a_little_too_much_as_much_stays_as_fits) {
  const std::vector<std::vector<TierOptions>> tiers = {{in_memory("one", 256)},
                                                       {in_memory("fast", 128), in_memory("slow", 128)}};
  for (const std::vector<TierOptions>& some : tiers) {
    open(320, some);
    await_pass({0, 320}, most_of_a_little_too_much);
    EXPECT_LE(pass(5).read_behind, 5 * most_of_a_little_too_much) << some.size() << " tiers";
  }
}

TEST_F(SteadyReadingTest, of_twice_too_much_half_of_what_the_tiers_hold_stays) {
  open(512, {in_memory("one", 256)});
  await_pass({0, 512}, 300);
  EXPECT_LE(pass(5).read_behind, 5 * 300U);
}

TEST_F(SteadyReadingTest, a_block_that_passes_is_read_behind_once_for_all_its_pieces) {
  open(320, {in_memory("one", 256)});
  await_pass({0, 320}, most_of_a_little_too_much);
  EXPECT_LE(pass(5, {0, 320}, 4).read_behind, 5 * most_of_a_little_too_much);
}

TEST_F(SteadyReadingTest, another_part_that_is_read_from_then_on_takes_the_place_of_the_first) {
  open(1000, {in_memory("one", 256)});
  await_pass({0, 320}, most_of_a_little_too_much);
  await_pass({500, 320}, most_of_a_little_too_much);
  await_pass({0, 200}, 0);
  await_pass({700, 20}, 0);
  await_pass({500, 320}, most_of_a_little_too_much);
}

/// Waits until the organizer has looked once more.
class Rounds {
 public:
  explicit Rounds(TieredStore& store) : store_(store) { store_.show_tiers(*published_, true); }
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  ~Rounds() { store_.show_tiers(*published_, false); }
  void await_one() {
    for (int time = 0; time < 2; ++time) {  // The first one may have begun before.
      published_->clear();
      while (published_->count.load() == 0) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

 private:
  TieredStore& store_;
  const std::unique_ptr<PublishedTiers> published_ = std::make_unique<PublishedTiers>();
};

// However often the organizer looks meanwhile: what it finds of the block is that little of it was read yet.
TEST_F(SteadyReadingTest, what_is_new_is_not_thrown_out_between_its_pieces) {
  open(1000, {in_memory("one", 64)});
  pass(8, {0, 40});  // Worth as much as anything can be by being read.
  await_pass({0, 40}, 0);
  Rounds rounds(*store_);
  const auto read_part = [&](std::uint64_t first) {
    const Work before = seen();
    std::vector<char> piece(block_bytes / 4);
    for (std::uint64_t number = 0; number < std::uint64_t{40} * 4; ++number) {
      store_->read(piece.data(), piece.size(), first * block_bytes + number * piece.size());
      rounds.await_one();
    }
    return seen().read_behind - before.read_behind;
  };
  EXPECT_EQ(read_part(100), 40U);
  EXPECT_EQ(read_part(200), 40U);
}

// With an organizer that comes in time: of what is read while he is late much finds the tiers full.
TEST_F(SteadyReadingTest, what_is_read_part_by_part_is_read_behind_once) {
  open(1000, {in_memory("one", 64)});
  await_pass({0, 80}, 30);
  Rounds rounds(*store_);
  const auto read_part = [&](std::uint64_t first) {
    const Work before = seen();
    for (std::uint64_t block = first; block < first + 48; ++block) {
      pass(1, {block, 1}, 4);
      rounds.await_one();
    }
    return seen().read_behind - before.read_behind;
  };
  for (std::uint64_t part = 2; part < 10; ++part) {
    EXPECT_LE(read_part(part * 48), 50U) << part;
    const std::uint64_t again = read_part(part * 48);
    EXPECT_LE(again, part < 5 ? 48U : 4U) << part;
  }
}

// What somebody says he needs takes the place of what is only read again and again; what he has done with leaves first.
TEST_F(SteadyReadingTest, scores_rule) {
  open(1000, {in_memory("one", 256)});
  await_pass({0, 320}, most_of_a_little_too_much);
  constexpr Part needed = {500, 40};
  const auto read_of_needed = [&] {
    store_->score(needed.first * block_bytes, needed.blocks * block_bytes, 1, 1);
    pass(1, {0, 320});
    return pass(1, needed).read_behind;
  };
  std::uint64_t read_behind = 1;
  for (int time = 0; time < 100 && read_behind > 0; ++time) {
    read_behind = read_of_needed();
  }
  EXPECT_EQ(read_behind, 0U);
  store_->score(needed.first * block_bytes, needed.blocks * block_bytes, 0, 1);
  await_pass({0, 320}, most_of_a_little_too_much);
}

}  // namespace
}  // namespace tiermap
