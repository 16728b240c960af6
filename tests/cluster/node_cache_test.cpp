// What ranks of a node keep for each other: the table by itself, by threads that each look at the same memory as a
// process of its own would.
#include "cluster/job/node_cache.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace tiermap {
namespace {

using Outcome = NodeCache::Outcome;
using Content = std::array<std::uint64_t, NodeCache::block_bytes / 8>;

/// Zeros, from a page's beginning on.
class Memory {
 public:
  explicit Memory(std::uint64_t bytes) : pages_(bytes / 4096) {}
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(pages_)); }

 private:
  struct alignas(4096) Page {
    std::array<std::byte, 4096> bytes{};
  };
  std::vector<Page> pages_;
};

/// Of so many sets of eight.
constexpr std::uint64_t bytes_of_sets(std::uint64_t sets) {
  return sets * (8 * 4096 + 512) / 4096 * 4096 + 8192;
}

std::uint64_t word_of(const NodeBlock& block, std::uint64_t sequence, std::uint64_t at) {
  return (block.data_set * 1'000'003 + block.number * 8191 + sequence * 131 + at) * 0x9e3779b97f4a7c15U;
}

Content content_of(const NodeBlock& block, std::uint64_t sequence) {
  Content content;
  for (std::uint64_t at = 0; at < content.size(); ++at) {
    content[at] = word_of(block, sequence, at);
  }
  return content;
}

std::span<const std::byte> as_bytes_of(const Content& content) {
  return std::as_bytes(std::span(content));
}

void put(NodeCache& cache, const NodeBlock& block, std::uint64_t sequence) {
  Content content;
  NodeCache::Found found = cache.find(block, sequence, std::as_writable_bytes(std::span(content)));
  ASSERT_EQ(found.outcome, Outcome::claimed) << block.number;
  found.claim.fill(as_bytes_of(content_of(block, sequence)), sequence);
}

/// The claim that may come with it is dropped.
Outcome look(NodeCache& cache, const NodeBlock& block, std::uint64_t least = 0) {
  Content content{};
  const NodeCache::Found found = cache.find(block, least, std::as_writable_bytes(std::span(content)));
  if (found.outcome == Outcome::whole) {
    EXPECT_GE(found.sequence, least);
    EXPECT_EQ(content, content_of(block, found.sequence)) << block.number;
  }
  return found.outcome;
}

TEST(NodeCacheTest, WhatOneHasPutThereTheOthersFind) {
  Memory memory(bytes_of_sets(4));
  NodeCache one(memory.bytes());
  NodeCache other(memory.bytes());
  EXPECT_EQ(one.places(), 32U);
  put(one, {1, 7}, 3);
  EXPECT_EQ(look(other, {1, 7}), Outcome::whole);
  EXPECT_EQ(look(other, {2, 7}), Outcome::claimed);
  EXPECT_EQ(look(other, {1, 8}), Outcome::claimed);
  EXPECT_EQ(look(other, {1, 39}), Outcome::claimed);  // In the same set.
}

TEST(NodeCacheTest, WhatSomebodyFetchesIsWaitedFor) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  Content content;
  NodeCache::Found found = cache.find({1, 7}, 0, std::as_writable_bytes(std::span(content)));
  ASSERT_EQ(found.outcome, Outcome::claimed);
  EXPECT_EQ(look(cache, {1, 7}), Outcome::awaited);
  EXPECT_EQ(look(cache, {1, 8}), Outcome::claimed);
  found.claim.fill(as_bytes_of(content_of({1, 7}, 5)), 5);
  EXPECT_FALSE(found.claim);
  EXPECT_EQ(look(cache, {1, 7}), Outcome::whole);
  {
    const NodeCache::Found dropped = cache.find({1, 9}, 0, std::as_writable_bytes(std::span(content)));
    EXPECT_EQ(look(cache, {1, 9}), Outcome::awaited);
  }
  EXPECT_EQ(look(cache, {1, 9}), Outcome::claimed);
}

TEST(NodeCacheTest, WhatIsOlderThanWhatSomebodyHasSeenIsReplaced) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  put(cache, {1, 7}, 5);
  EXPECT_EQ(look(cache, {1, 7}, 5), Outcome::whole);
  put(cache, {1, 7}, 6);
  EXPECT_EQ(look(cache, {1, 7}, 6), Outcome::whole);
  EXPECT_EQ(look(cache, {1, 7}, 5), Outcome::whole);
  // In the place where it was: there is room for seven others.
  for (std::uint64_t number = 10; number < 17; ++number) {
    put(cache, {1, number}, 1);
  }
  EXPECT_EQ(look(cache, {1, 7}, 6), Outcome::whole);
}

TEST(NodeCacheTest, WhatWasPutThereFirstGoesFirst) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  for (std::uint64_t number = 0; number < 8; ++number) {
    put(cache, {1, number}, 1);
  }
  for (std::uint64_t number = 0; number < 8; ++number) {
    EXPECT_EQ(look(cache, {1, number}), Outcome::whole);
  }
  put(cache, {1, 8}, 1);
  put(cache, {1, 9}, 1);
  for (std::uint64_t number = 2; number < 10; ++number) {
    EXPECT_EQ(look(cache, {1, number}), Outcome::whole) << number;
  }
  EXPECT_EQ(look(cache, {1, 0}), Outcome::claimed);
}

TEST(NodeCacheTest, ADataSetOfAsManyBlocksAsThereArePlacesIsThereAsAWhole) {
  Memory memory(bytes_of_sets(61));
  NodeCache cache(memory.bytes());
  for (std::uint64_t number = 0; number < cache.places(); ++number) {
    put(cache, {17, number}, 2);
  }
  for (std::uint64_t number = 0; number < cache.places(); ++number) {
    EXPECT_EQ(look(cache, {17, number}, 2), Outcome::whole) << number;
  }
}

/// Claims that nobody will ever fill, as of ranks that were killed.
TEST(NodeCacheTest, WhoDiesWithAClaimLeavesAPlaceThatNobodyReadsOrTakes) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  Content content;
  std::vector<NodeClaim> dead;
  for (std::uint64_t number = 0; number < 7; ++number) {
    NodeCache::Found found = cache.find({1, number}, 0, std::as_writable_bytes(std::span(content)));
    ASSERT_EQ(found.outcome, Outcome::claimed);
    dead.push_back(std::move(found.claim));
  }
  // One place is left, and does for all others.
  for (std::uint64_t number = 100; number < 200; ++number) {
    put(cache, {1, number}, 1);
    EXPECT_EQ(look(cache, {1, number}), Outcome::whole);
  }
  EXPECT_EQ(look(cache, {1, 3}), Outcome::awaited);
  NodeCache::Found last = cache.find({1, 7}, 0, std::as_writable_bytes(std::span(content)));
  EXPECT_EQ(last.outcome, Outcome::claimed);
  EXPECT_EQ(look(cache, {1, 8}), Outcome::none);
}

TEST(NodeCacheTest, ABlockThatSomebodyWroteOverIsFetchedAnew) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  put(cache, {1, 7}, 1);
  const Content content = content_of({1, 7}, 1);
  const auto all = memory.bytes();
  const auto found = std::ranges::search(all, std::as_bytes(std::span(content)));
  ASSERT_EQ(found.size(), sizeof(content));
  all[static_cast<std::size_t>(found.begin() - all.begin()) + 4001] ^= std::byte{1};
  EXPECT_EQ(look(cache, {1, 7}), Outcome::claimed);
  EXPECT_EQ(cache.damaged(), 1U);
  put(cache, {1, 7}, 1);
  EXPECT_EQ(look(cache, {1, 7}), Outcome::whole);
}

TEST(NodeCacheTest, TheLastBlockMayBeShorter) {
  Memory memory(bytes_of_sets(1));
  NodeCache cache(memory.bytes());
  for (const std::size_t bytes : {1U, 7U, 8U, 13U, 4095U}) {
    const NodeBlock block{1, bytes};
    const Content content = content_of(block, 1);
    std::vector<std::byte> copy(bytes);
    NodeCache::Found found = cache.find(block, 0, copy);
    ASSERT_EQ(found.outcome, Outcome::claimed);
    found.claim.fill(std::as_bytes(std::span(content)).first(bytes), 1);
    EXPECT_EQ(cache.find(block, 0, copy).outcome, Outcome::whole);
    EXPECT_EQ(std::memcmp(copy.data(), content.data(), bytes), 0);
  }
}

/// Far more blocks than places: all the time somebody replaces what others are reading. A home goes on meanwhile, and
/// each thread is behind by some of its changes, and never goes back.
TEST(NodeCacheTest, ThreadsSeeWholeBlocksAsOfNoEarlierThanTheySaid) {
  Memory memory(bytes_of_sets(2));
  std::atomic<std::uint64_t> home{1};
  std::array<std::atomic<std::uint64_t>, 4> outcomes{};
  std::vector<std::thread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      NodeCache cache(memory.bytes());
      std::mt19937_64 random(thread);
      std::vector<NodeClaim> kept;  // For a while.
      std::uint64_t seen = 0;
      Content content;
      for (int round = 0; round < 20'000; ++round) {
        const NodeBlock block{1 + random() % 2, random() % 12};
        NodeCache::Found found = cache.find(block, seen, std::as_writable_bytes(std::span(content)));
        ++outcomes.at(static_cast<std::size_t>(found.outcome));
        if (found.outcome == Outcome::whole) {
          ASSERT_GE(found.sequence, seen);
          ASSERT_EQ(content, content_of(block, found.sequence));
        } else if (found.outcome == Outcome::claimed && random() % 8 == 0) {
          kept.push_back(std::move(found.claim));
        } else if (found.outcome == Outcome::claimed) {
          const std::uint64_t now = home.load();
          found.claim.fill(as_bytes_of(content_of(block, now)), now);
        }
        if (kept.size() > random() % 4) {
          kept.clear();
        }
        if (random() % 64 == 0) {
          home.fetch_add(1);
        }
        if (random() % 32 == 0) {
          seen = home.load();
        }
      }
      EXPECT_EQ(cache.damaged(), 0U);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::whole)].load(), 1000U);
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::claimed)].load(), 1000U);
  EXPECT_GT(outcomes[static_cast<std::size_t>(Outcome::awaited)].load(), 0U);
}

}  // namespace
}  // namespace tiermap
