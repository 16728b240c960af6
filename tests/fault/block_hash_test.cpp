// The checksum that tells which blocks of a page have changed.
#include "cache/block_hash.hpp"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>
#include <set>
#include <vector>

#include "fault/wide_registers.hpp"

namespace tiermap {
namespace {

TEST(BlockHash, AnyChangedByteIsSeenInItsBlockAndNoOther) {
  std::mt19937_64 random(1);
  std::vector<unsigned char> data(8 * block_bytes);
  for (unsigned char& byte : data) {
    byte = static_cast<unsigned char>(random());
  }
  std::vector<BlockHash> before(8);
  hash_blocks(data.data(), data.size(), before.data());
  EXPECT_FALSE(blocks_differ(data.data(), data.size(), before.data()));
  for (std::uint64_t trial = 0; trial < 300; ++trial) {
    const std::uint64_t place =
        trial < 16 ? trial / 2 * block_bytes + (trial % 2) * (block_bytes - 1) : random() % data.size();
    const unsigned char bit = static_cast<unsigned char>(1U << random() % 8);
    data[place] ^= bit;
    EXPECT_TRUE(blocks_differ(data.data(), data.size(), before.data()));
    for (std::uint64_t block = 0; block < 8; ++block) {
      EXPECT_EQ(hash_block(data.data() + block * block_bytes, block_bytes) == before[block],
                block != place / block_bytes);
    }
    data[place] ^= bit;
  }
}

TEST(BlockHash, AShortLastBlockIsHashedAsFarAsItGoes) {
  std::vector<unsigned char> data(block_bytes + 100, 5);
  std::vector<BlockHash> hashes(2);
  hash_blocks(data.data(), data.size(), hashes.data());
  EXPECT_EQ(hashes[1], hash_block(data.data(), 100));
  EXPECT_FALSE(hashes[0] == hashes[1]);
  data.back() = 6;
  EXPECT_TRUE(blocks_differ(data.data(), data.size(), hashes.data()));
}

TEST(BlockHash, TheProcessorsWideRegistersGiveTheSame) {
  std::mt19937_64 random(2);
  std::vector<unsigned char> data(block_bytes);
  for (unsigned char& byte : data) {
    byte = static_cast<unsigned char>(random());
  }
  for (std::uint64_t bytes = 1; bytes <= block_bytes; bytes += bytes < 600 ? 1 : 97) {
    const XXH128_hash_t expected = XXH3_128bits_withSeed(data.data(), bytes, block_hash_seed);
    EXPECT_EQ(hash_block(data.data(), bytes), (BlockHash{expected.low64, expected.high64})) << bytes;
  }
}

TEST(BlockHash, TheProgramsOwnInstructionsAreNoSlowerAfterIt) {
  const std::vector<unsigned char> data(block_bytes, 3);
  for (const std::uint64_t bytes : {std::uint64_t{100}, std::uint64_t{1000}, block_bytes}) {
    BlockHash hash{};
    expect_wide_registers_left_clear([&] { hash = hash_block(data.data(), bytes); });
    EXPECT_NE(hash.low, 0U);
  }
}

TEST(BlockHash, SwappedAndShiftedBlocksDiffer) {
  std::vector<unsigned char> data(block_bytes, 0);
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;
  for (std::uint64_t place = 0; place < block_bytes; ++place) {
    data[place] = 1;
    const BlockHash hash = hash_block(data.data(), block_bytes);
    EXPECT_TRUE(seen.insert({hash.low, hash.high}).second) << place;
    data[place] = 0;
  }
}

}  // namespace
}  // namespace tiermap
