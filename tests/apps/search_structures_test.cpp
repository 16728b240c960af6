// The structures of tiermap-search in plain memory: what they are made of, that they are what they are called, and that
// they answer rightly whatever their size.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <vector>

#include "command_line/plain_bytes.hpp"
#include "parallel/permutation.hpp"
#include "parallel/thread_team.hpp"
#include "search/dictionary.hpp"
#include "search/entries.hpp"
#include "search/lookup_run.hpp"
#include "search/mapped_elements.hpp"
#include "search/ordered_map.hpp"
#include "search/unordered_map.hpp"
#include "tiermap/error.hpp"

namespace tiermap::test {
namespace {

constexpr Structure every_structure[] = {Structure::sorted_vector, Structure::ordered_map, Structure::unordered_map};

/// A structure that was built.
struct Built {
  Built(Structure structure, std::uint64_t elements, std::uint32_t threads = 2, std::uint64_t memory_bytes = 1U << 30U)
      : header(SearchHeader::for_elements(structure, elements, 5)), bytes(header.file_bytes) {
    ThreadTeam team(threads);
    ProgressDisplay progress("building", 0);
    build_dictionary(header, bytes, {team, memory_bytes, progress});
  }
  std::unique_ptr<const Dictionary> open() const { return open_dictionary(header, bytes, "a file"); }

  SearchHeader header;
  PlainBytes bytes;
};

TEST(PermutationTest, EveryNumberHasOnePlace) {
  for (const std::uint64_t count : {1U, 2U, 3U, 4U, 5U, 64U, 1000U, 4097U}) {
    const Permutation order(count, 3);
    std::set<std::uint64_t> met;
    for (std::uint64_t place = 0; place < count; ++place) {
      met.insert(order.at(place));
      EXPECT_EQ(order.place_of(order.at(place)), place);
    }
    EXPECT_EQ(met.size(), count);
    EXPECT_EQ(*met.rbegin(), count - 1);
  }
}

TEST(EntriesTest, KeysAscendAndAbsentOnesAreAbsent) {
  const Entries entries(9);
  constexpr std::uint64_t count = 2000;
  std::set<std::uint64_t> keys;
  for (std::uint64_t rank = 0; rank < count; ++rank) {
    const Entry entry = entries.at(rank);
    EXPECT_TRUE(keys.empty() || *keys.rbegin() < entry.key);
    keys.insert(entry.key);
  }
  for (std::uint64_t rank = 0; rank < count; ++rank) {
    for (const std::uint64_t random : {std::uint64_t{0}, rank, ~std::uint64_t{0}, (std::uint64_t{1} << 24) - 2}) {
      EXPECT_FALSE(keys.contains(entries.absent_key(rank, random)));
    }
  }
  EXPECT_LT(entries.at(Entries::most - 2).key, entries.at(Entries::most - 1).key);
}

TEST(SearchStructures, FindEveryKeyAndNoOther) {
  std::vector<std::uint64_t> counts = {100, 255, 256, 257, 20'000};
  for (std::uint64_t count = 1; count <= 33; ++count) {
    counts.push_back(count);
  }
  for (const Structure structure : every_structure) {
    for (const std::uint64_t count : counts) {
      const Built built(structure, count);
      const auto dictionary = built.open();
      const Entries entries(built.header.seed);
      for (std::uint64_t rank = 0; rank < count; ++rank) {
        const Entry entry = entries.at(rank);
        ASSERT_EQ(dictionary->find(entry.key), entry.value) << structure_name(structure) << " " << count;
        ASSERT_EQ(dictionary->find(entries.absent_key(rank, rank)), std::nullopt) << structure_name(structure);
      }
      EXPECT_EQ(dictionary->find(~std::uint64_t{0}), std::nullopt);
    }
  }
}

TEST(SearchStructures, AreTheSameWithAnyThreadsAndMemory) {
  constexpr std::uint64_t elements = 300'000;
  for (const Structure structure : every_structure) {
    const Built one(structure, elements, 1);
    for (const std::uint32_t threads : {2U, 19U}) {
      // Heads of 64 KiB at once: the hash table in many passes.
      EXPECT_TRUE(std::ranges::equal(Built(structure, elements, threads, 128U << 10U).bytes.words(), one.bytes.words()))
          << structure_name(structure) << " with " << threads << " threads";
    }
  }
}

/// What a walk through a subtree finds.
struct Subtree {
  std::uint64_t nodes = 0;
  std::uint64_t height = 0;
  std::uint64_t black_height = 0;
};

/// Checks a subtree's order (keys from `least` to `most`), colours and links.
Subtree check_subtree(std::span<const TreeNode> nodes, Link link, Link parent, std::uint64_t least,
                      std::uint64_t most) {
  if (link == 0) {
    return {};
  }
  const TreeNode& node = nodes[link - 1];
  EXPECT_EQ(node.parent, parent);
  EXPECT_GE(node.entry.key, least);
  EXPECT_LE(node.entry.key, most);
  if (node.red != 0) {
    EXPECT_TRUE(parent != 0 && nodes[parent - 1].red == 0) << "the root or two in a row are red";
  }
  const Subtree left = check_subtree(nodes, node.left, link, least, node.entry.key - 1);
  const Subtree right = check_subtree(nodes, node.right, link, node.entry.key + 1, most);
  EXPECT_EQ(left.black_height, right.black_height);
  return {left.nodes + right.nodes + 1, std::max(left.height, right.height) + 1,
          left.black_height + (node.red == 0 ? 1 : 0)};
}

TEST(OrderedMapTest, IsARedBlackTree) {
  for (const std::uint64_t count : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 12U, 100U, 1023U, 1024U, 1025U, 50'000U}) {
    const Built built(Structure::ordered_map, count);
    const std::span nodes = elements_in<const TreeNode>(built.header, built.bytes);
    const Link root = heads_in(built.header, built.bytes).front();
    const Subtree tree = check_subtree(nodes, root, 0, 0, ~std::uint64_t{0});
    EXPECT_EQ(tree.nodes, count);
    EXPECT_EQ(tree.height, static_cast<std::uint64_t>(std::bit_width(count)));
  }
}

TEST(OrderedMapTest, AWayDownTouchesAnotherPageAtAlmostEveryStep) {
  const Built built(Structure::ordered_map, 100'000);
  const std::span nodes = elements_in<const TreeNode>(built.header, built.bytes);
  std::uint64_t near = 0;
  std::uint64_t links = 0;
  for (std::size_t index = 0; index < nodes.size(); ++index) {
    for (const Link link : {nodes[index].left, nodes[index].right}) {
      const std::uint64_t page_of_child = (link - 1) * sizeof(TreeNode) / 4096;
      links += link != 0 ? 1 : 0;
      near += link != 0 && page_of_child == index * sizeof(TreeNode) / 4096 ? 1 : 0;
    }
  }
  EXPECT_EQ(links, nodes.size() - 1);
  EXPECT_LT(near, links / 100);
}

TEST(UnorderedMapTest, ChainsAreShortAndHoldEveryNodeOnce) {
  const Built built(Structure::unordered_map, 50'000);
  const std::span nodes = elements_in<const ChainNode>(built.header, built.bytes);
  std::vector<bool> met(nodes.size());
  std::uint64_t longest = 0;
  for (const Link head : heads_in(built.header, built.bytes)) {
    std::uint64_t length = 0;
    for (Link link = head; link != 0; link = nodes[link - 1].next) {
      EXPECT_FALSE(met[link - 1]);
      met[link - 1] = true;
      ++length;
    }
    longest = std::max(longest, length);
  }
  EXPECT_EQ(std::count(met.begin(), met.end(), true), 50'000);
  // Of as many random hashes as heads, hardly ever more than this many meet.
  EXPECT_LE(longest, 12U);
}

/// Looks up much; whether that is refused.
bool is_refused(const Built& built) {
  ThreadTeam team(2);
  ProgressDisplay progress("looking up", 0);
  const LookupSequence sequence(Entries(built.header.seed), built.header.elements, 1, 50);
  try {
    look_up(*built.open(), sequence, 5000, team, progress);
    return false;
  } catch (const StoreError&) {
    return true;
  }
}

TEST(SearchStructures, LinksInCirclesAndOutOfTheFileAreRefused) {
  const Built ring(Structure::ordered_map, 1000);
  const Link root = heads_in(ring.header, ring.bytes).front();
  EXPECT_FALSE(is_refused(ring));
  for (TreeNode& node : elements_in<TreeNode>(ring.header, ring.bytes)) {
    node.left = node.left == 0 ? root : node.left;
  }
  EXPECT_TRUE(is_refused(ring));

  const Built chains(Structure::unordered_map, 1000);
  EXPECT_FALSE(is_refused(chains));
  for (ChainNode& node : elements_in<ChainNode>(chains.header, chains.bytes)) {
    node.next = node.next == 0 ? 1000 : node.next;
  }
  EXPECT_TRUE(is_refused(chains));

  for (const Structure structure : {Structure::ordered_map, Structure::unordered_map}) {
    for (const Link link : {Link{1001}, ~Link{0}}) {
      const Built outside(structure, 1000);
      std::ranges::fill(heads_in(outside.header, outside.bytes), link);
      EXPECT_TRUE(is_refused(outside));
    }
  }
}

TEST(LookupSequenceTest, SaysWhatWasWrong) {
  const Built built(Structure::sorted_vector, 1000);
  const auto entries = elements_in<Entry>(built.header, built.bytes);
  const Entry other = entries[500];
  entries[500].value += 1;
  const LookupSequence sequence(Entries(built.header.seed), 1000, 1, 100);
  ThreadTeam team(3);
  ProgressDisplay progress("looking up", 0);
  const LookupOutcome outcome = look_up(*built.open(), sequence, 20'000, team, progress);
  EXPECT_EQ(outcome.hits, 20'000U);
  EXPECT_GT(outcome.wrong, 0U);
  EXPECT_NE(outcome.failure(sequence, "a file")
                .find(" in a file were answered wrongly, the first that of key " + std::to_string(other.key)),
            std::string::npos);
  EXPECT_EQ(LookupOutcome{}.failure(sequence, "a file"), "");
}

TEST(SearchHeaderTest, FilesAreAsLargeAsAskedButForAPage) {
  for (const Structure structure : every_structure) {
    for (const std::uint64_t bytes : {12'288U, 100'000U, 1U << 20U, (1U << 30U) + 1}) {
      const SearchHeader header = SearchHeader::for_bytes(structure, bytes, 1);
      EXPECT_LE(header.file_bytes, bytes);
      const SearchHeader next = SearchHeader::for_elements(structure, header.elements + 1, 1);
      EXPECT_GT(next.file_bytes, bytes);
      EXPECT_EQ(header.elements_at % 4096, 0U);
    }
  }
  static_assert(sizeof(SearchHeader) <= SearchHeader::bytes);
}

}  // namespace
}  // namespace tiermap::test
