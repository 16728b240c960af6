// Tiers whose places fail, on purpose: what is said of it, and what is taken afterwards.
#include "tier/block_mover.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "store/faulty_store.hpp"
#include "store/memory_store.hpp"
#include "tier/organizer.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block_bytes = 4096;
constexpr std::uint64_t capacity_blocks = 8;
constexpr std::uint64_t blocks_in_store = 256;

/// One tier, in a place that fails as the test says, in front of memory.
class BlockMoverTest : public testing::Test {
 protected:
  explicit BlockMoverTest(TierKind kind = TierKind::memory, bool with_faster_one = false,
                          std::uint64_t capacity = capacity_blocks) {
    TierOptions options;
    options.name = "disk";
    options.kind = kind;
    options.capacity_bytes = capacity * block_bytes;
    auto place = std::make_unique<FaultyStore>(std::make_shared<MemoryStore>(options.capacity_bytes));
    place_ = place.get();
    std::vector<std::unique_ptr<Tier>> tiers;
    if (with_faster_one) {
      TierOptions faster;
      faster.name = "dram";
      faster.capacity_bytes = capacity_blocks * block_bytes;
      tiers.push_back(std::make_unique<Tier>(faster, block_bytes));
    }
    tiers.push_back(std::make_unique<Tier>(options, block_bytes, std::move(place)));
    blocks_.emplace(std::move(tiers), blocks_in_store, ScoreTimes{1000, 30000});
    mover_.emplace(*blocks_, backing_, block_bytes, [this](const std::string& line) { told_.push_back(line); });
  }

  /// Whether the tier took the block, dirty and full of its number.
  bool put(std::uint64_t block, TierNumber tier = 0) {
    BlockOwnership owned(*blocks_, block);
    const BlockBuffer buffer(block_bytes);
    std::memset(buffer.data(), static_cast<int>(block), block_bytes);
    return mover_->put_in_tier(owned, tier, buffer, true) == 0;
  }

  void expect_block(std::uint64_t block) {
    const BlockOwnership owned(*blocks_, block);
    BlockBuffer buffer(block_bytes);
    EXPECT_EQ(mover_->read_block(owned, buffer), 0);
    EXPECT_EQ(std::string(buffer.data(), block_bytes), std::string(block_bytes, static_cast<char>(block)));
  }

  /// Bytes from here on find no room.
  void end_room_at(std::uint64_t offset, int error) {
    place_->on_write([offset, error](const FaultyStore::Call& call) {
      return call.offset + call.bytes > offset ? FaultyStore::fail(error) : FaultyStore::pass();
    });
  }

  TierReport report() const {
    TierReport report;
    blocks_->report(0, block_bytes, report);
    return report;
  }

  const std::shared_ptr<FaultyStore> backing_ =
      std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(blocks_in_store * block_bytes));
  FaultyStore* place_ = nullptr;
  std::optional<TierBlocks> blocks_;
  std::optional<BlockMover> mover_;
  std::vector<std::string> told_;
};

TEST_F(BlockMoverTest, a_full_place_keeps_what_fits_and_is_told_of_once) {
  end_room_at(3 * block_bytes, EDQUOT);
  for (std::uint64_t block = 0; block < 3; ++block) {
    EXPECT_TRUE(put(block));
  }
  EXPECT_FALSE(put(3));
  for (int turn = 0; turn < 5; ++turn) {
    mover_->try_failed(0);
    EXPECT_FALSE(put(4));
  }
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0], "tier 'disk' is full at 12KiB of 32KiB (" + std::string(std::strerror(EDQUOT)) +
                          "): slower ones take the rest; nothing is lost");
  EXPECT_EQ(report().capacity_bytes, 3 * block_bytes);
  EXPECT_FALSE(report().failed);
  for (std::uint64_t block = 0; block < 3; ++block) {
    expect_block(block);
  }
}

TEST_F(BlockMoverTest, what_a_full_place_has_can_be_exchanged) {
  end_room_at(3 * block_bytes, ENOSPC);
  for (std::uint64_t block = 0; block < 4; ++block) {
    put(block);
  }
  for (std::uint64_t block = 10; block < 20; ++block) {
    BlockOwnership(*blocks_, block == 10 ? 1 : block - 1).leave();
    EXPECT_TRUE(put(block)) << block;
    expect_block(block);
  }
  EXPECT_EQ(report().used_bytes, 3 * block_bytes);
}

TEST_F(BlockMoverTest, a_place_with_room_again_takes_what_its_capacity_says) {
  end_room_at(3 * block_bytes, ENOSPC);
  for (std::uint64_t block = 0; block < 6; ++block) {
    put(block);
  }
  place_->on_write({});
  mover_->try_failed(0);
  EXPECT_EQ(report().capacity_bytes, capacity_blocks * block_bytes);
  for (std::uint64_t block = 3; block < 8; ++block) {
    EXPECT_TRUE(put(block));
  }
  EXPECT_FALSE(put(8));  // That is its capacity.
  for (std::uint64_t block = 0; block < 8; ++block) {
    expect_block(block);
  }
  EXPECT_EQ(told_.size(), 1U);
}

TEST_F(BlockMoverTest, a_place_that_is_read_only_is_told_of_and_again_when_it_is_not) {
  EXPECT_TRUE(put(0));
  end_room_at(0, EROFS);
  EXPECT_FALSE(put(1));
  EXPECT_FALSE(put(2));
  mover_->try_failed(0);
  EXPECT_TRUE(report().failed);
  expect_block(0);
  place_->on_write({});
  mover_->try_failed(0);
  EXPECT_FALSE(report().failed);
  EXPECT_TRUE(put(1));
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0], "tier 'disk' takes nothing more (Read-only file system): slower ones are used; nothing is lost");
  EXPECT_EQ(told_[1], "tier 'disk' takes blocks again");
}

TEST_F(BlockMoverTest, a_place_that_cannot_be_read_takes_nothing_and_does_not_say_that_nothing_is_lost) {
  EXPECT_TRUE(put(1));
  place_->on_read([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  {
    BlockOwnership owned(*blocks_, 1);
    EXPECT_EQ(mover_->write_down(owned), -EIO);
  }
  mover_->try_failed(0);  // What is written to it would be lost.
  EXPECT_TRUE(report().failed);
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0],
            "tier 'disk' takes nothing more (Input/output error): slower ones are used; what it has and the store "
            "behind has not is lost, unless it can be read again");
  place_->on_read({});
  mover_->try_failed(0);
  EXPECT_FALSE(report().failed);
  expect_block(1);
}

TEST_F(BlockMoverTest, a_full_place_that_fails_as_well_takes_all_again_in_the_end) {
  end_room_at(2 * block_bytes, ENOSPC);
  for (std::uint64_t block = 0; block < 3; ++block) {
    put(block);
  }
  end_room_at(0, EIO);
  BlockOwnership(*blocks_, 1).leave();
  EXPECT_FALSE(put(5));
  mover_->try_failed(0);
  EXPECT_TRUE(report().failed);
  place_->on_write({});
  mover_->try_failed(0);
  for (std::uint64_t block = 1; block < capacity_blocks; ++block) {
    EXPECT_TRUE(put(block));
  }
  for (std::uint64_t block = 0; block < capacity_blocks; ++block) {
    expect_block(block);
  }
}

/// DRAM before a disk of which more cannot be read than the organizer moves in a round.
class UnreadableTierTest : public BlockMoverTest {
 protected:
  UnreadableTierTest() : BlockMoverTest(TierKind::memory, true, unreadable) {
    for (std::uint64_t block = 0; block < unreadable; ++block) {
      EXPECT_TRUE(put(block, 1));
    }
    place_->on_read([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  }
  template <typename Condition>
  static bool await(Condition&& condition) {
    for (int time = 0; time < 20'000 && !condition(); ++time) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }
  static constexpr std::uint64_t unreadable = 100;
};

TEST_F(UnreadableTierTest, all_else_is_moved_and_written_down) {
  EXPECT_TRUE(put(150));
  blocks_->score(200, 1, 1);
  Organizer organizer(*blocks_, *mover_, {.organize_seconds = 0.001, .write_down_seconds = 0, .retry_seconds = 0},
                      [] {});
  EXPECT_TRUE(await([&] { return blocks_->place(200).tier == 0; }));
  EXPECT_TRUE(await([&] { return !blocks_->place(150).dirty; }));
  char byte = 0;
  EXPECT_EQ(backing_->read(&byte, 1, 150 * block_bytes), 1);
  EXPECT_EQ(byte, static_cast<char>(150));
}

/// DRAM before a memory server.
class CopiesMoverTest : public BlockMoverTest {
 protected:
  CopiesMoverTest() : BlockMoverTest(TierKind::remote, true) {}
  char in_backing_store(std::uint64_t block) {
    char byte = 0;
    EXPECT_EQ(backing_->read(&byte, 1, block * block_bytes), 1);
    return byte;
  }
};

TEST_F(CopiesMoverTest, what_is_dirty_is_in_the_backing_store_before_it_is_on_another_machine) {
  ASSERT_TRUE(put(3));
  backing_->on_write([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  {
    BlockOwnership owned(*blocks_, 3);
    EXPECT_EQ(mover_->move(owned, 1), -EIO);
    EXPECT_EQ(owned.place().tier, 0);
    EXPECT_TRUE(owned.place().dirty);
  }
  backing_->on_write({});
  {
    BlockOwnership owned(*blocks_, 3);
    EXPECT_EQ(mover_->move(owned, 1), 0);
    EXPECT_EQ(owned.place().tier, 1);
    EXPECT_FALSE(owned.place().dirty);
  }
  EXPECT_EQ(in_backing_store(3), 3);
  place_->on_read([](const FaultyStore::Call&) { return FaultyStore::fail(ETIMEDOUT); });
  expect_block(3);
  ASSERT_EQ(told_.size(), 1U);
}

TEST_F(CopiesMoverTest, what_is_dirty_does_not_go_there_for_want_of_room_either) {
  for (std::uint64_t block = 0; block < capacity_blocks; ++block) {
    EXPECT_TRUE(put(block));
  }
  EXPECT_FALSE(put(capacity_blocks));
  EXPECT_TRUE(blocks_->has_room());
  EXPECT_FALSE(blocks_->has_room_for_changes());
}

}  // namespace
}  // namespace tiermap
