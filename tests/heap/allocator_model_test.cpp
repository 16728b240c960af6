// Random calls, against a map of the blocks that there should be. A failure prints the seed of its run.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <random>
#include <set>

#include "heap/allocator.hpp"
#include "memory_area.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class Model {
 public:
  explicit Model(std::uint64_t seed) : random_(seed) {}

  void run(int turns) {
    for (int turn = 0; turn < turns && !testing::Test::HasFatalFailure(); ++turn) {
      const std::uint64_t choice = random_() % 1000;
      // Times of growth and of decay, so that the heap is full at times and nearly empty at others.
      const bool growing = turn / 700 % 2 == 0;
      if (choice < (growing ? 640U : 340U)) {
        allocate();
      } else if (choice < 960) {
        free_one();
      } else if (choice < 975) {
        free_wrongly();
      } else if (choice < 985) {
        give_back();
      } else if (choice < 991) {
        save_and_give_back();
      } else if (choice < 995) {
        reload();
      } else {
        compare();
      }
    }
  }

 private:
  using Blocks = std::map<std::uint64_t, std::uint64_t>;
  static constexpr std::uint64_t capacity = 12 << 20;

  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  std::uint64_t draw_bytes() {
    switch (below(12)) {
      case 0:
        return 1 + below(1 << 20);
      case 1:
        return 1 + below(100'000);
      case 2:
      case 3:
        return 1 + below(9000);
      default:
        return 1 + below(300);
    }
  }

  void allocate() {
    const std::uint64_t bytes = draw_bytes();
    const std::uint64_t alignment = 1ULL << below(below(10) == 0 ? 18 : 6);
    const std::uint64_t offset = allocator_->allocate(bytes, alignment);
    if (offset == Allocator::no_block) {
      return;
    }
    const std::uint64_t usable = allocator_->block_bytes(offset);
    ASSERT_EQ(offset % alignment, 0U);
    ASSERT_GE(usable, bytes);
    ASSERT_GE(offset, Allocator::first_offset);
    ASSERT_LE(offset + usable, capacity);
    const auto [place, is_new] = blocks_.emplace(offset, usable);
    ASSERT_TRUE(is_new);
    ASSERT_TRUE(place == blocks_.begin() || std::prev(place)->first + std::prev(place)->second <= offset);
    ASSERT_TRUE(std::next(place) == blocks_.end() || std::next(place)->first >= offset + usable);
    for (std::uint64_t page = offset / 4096; page <= (offset + usable - 1) / 4096; ++page) {
      touched_.insert(page);
    }
  }

  void free_one() {
    if (!blocks_.empty()) {
      const auto block = std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(below(blocks_.size())));
      allocator_->deallocate(block->first);
      blocks_.erase(block);
    }
  }

  void free_wrongly() {
    std::uint64_t offset = below(capacity);
    if (!blocks_.empty() && below(2) == 0) {
      offset = std::next(blocks_.begin(), static_cast<std::ptrdiff_t>(below(blocks_.size())))->first + 8 * below(3);
    }
    if (!blocks_.contains(offset)) {
      ASSERT_THROW(allocator_->deallocate(offset), OptionError) << offset;
      ASSERT_THROW(allocator_->block_bytes(offset), OptionError) << offset;
    }
  }

  bool is_free(const Blocks& blocks, std::uint64_t page) const {
    auto after = blocks.lower_bound((page + 1) * 4096);
    return after == blocks.begin() || std::prev(after)->first + std::prev(after)->second <= page * 4096;
  }

  // All of what is told is free, and all that was in a block and is free is told.
  void expect_given_back(GiveBack which) {
    allocator_->give_back(which, [&](std::uint64_t offset, std::uint64_t bytes) {
      ASSERT_EQ(offset % 4096, 0U);
      ASSERT_EQ(bytes % 4096, 0U);
      ASSERT_GT(bytes, 0U);
      for (std::uint64_t page = offset / 4096; page < (offset + bytes) / 4096; ++page) {
        ASSERT_TRUE(is_free(blocks_, page)) << page;
        if (which == GiveBack::free_now) {
          gone_.insert(page);
        } else {
          ASSERT_TRUE(is_free(saved_, page) || gone_.contains(page)) << page;
        }
        touched_.erase(page);
      }
    });
  }
  void expect_nothing_left_to_give_back(GiveBack which) {
    for (const std::uint64_t page : touched_) {
      ASSERT_FALSE(is_free(blocks_, page)) << page;
    }
    allocator_->give_back(which, [](std::uint64_t offset, std::uint64_t) { FAIL() << offset << " told twice"; });
  }

  void give_back() {
    expect_given_back(GiveBack::free_when_saved);
    if (below(2) == 0) {
      allocator_->flush_caches();
      expect_given_back(GiveBack::free_now);
      expect_nothing_left_to_give_back(GiveBack::free_now);
    }
  }

  void save_and_give_back() {
    const bool flushed = below(2) == 0;
    if (flushed) {
      allocator_->flush_caches();
    }
    allocator_->save();
    saved_ = blocks_;
    gone_.clear();
    if (flushed) {
      expect_given_back(GiveBack::free_when_saved);
      expect_nothing_left_to_give_back(GiveBack::free_when_saved);
    }
  }

  // As after a crash, or closed properly: what was saved last is there.
  void reload() {
    if (below(2) == 0) {
      save_and_give_back();
    }
    allocator_->save();
    saved_ = blocks_;
    gone_.clear();
    for (int more = 0; more < 5; ++more) {
      allocate();
      free_one();
    }
    allocator_ = std::make_unique<Allocator>(area_, capacity, Allocator::Content::saved);
    blocks_ = saved_;
    touched_.clear();
    if (below(2) == 0) {
      compare();
    }
  }

  void compare() {
    const AllocatorStatistics statistics = allocator_->statistics();
    ASSERT_EQ(statistics.live_blocks, blocks_.size());
    ASSERT_EQ(statistics.free_bytes + statistics.span_bytes + statistics.large_run_bytes + slab_bytes, capacity);
    ASSERT_EQ(blocks_of(*allocator_), blocks_);
  }

  std::mt19937_64 random_;
  MemoryArea area_;
  std::unique_ptr<Allocator> allocator_ = std::make_unique<Allocator>(area_, capacity, Allocator::Content::nothing);
  Blocks blocks_;
  Blocks saved_;
  std::set<std::uint64_t> gone_;     ///< Pages that the saved state has lost already.
  std::set<std::uint64_t> touched_;  ///< Pages that were in a block since they were given back.
};

TEST(AllocatorModel, RandomCallsDoWhatAMapDoes) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model(seed).run(5000);
    if (HasFatalFailure()) {
      return;
    }
  }
}

}  // namespace
}  // namespace tiermap
