// Small reads of a store that come from blocks: every byte is the store's, by few reads, and by none that failed.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "store/block_reader.hpp"

namespace tiermap {
namespace {

class CountedBytes final : public Store {
 public:
  explicit CountedBytes(std::size_t bytes) : content(bytes) {
    std::mt19937 random(1);
    for (char& byte : content) {
      byte = static_cast<char>(random());
    }
  }
  std::uint64_t size_bytes() const override { return content.size(); }
  /// Never all at once.
  std::int64_t read(void* buffer, std::size_t bytes, std::uint64_t offset) override {
    if (error != 0) {
      return error;
    }
    reads += offset == behind ? 0 : 1;
    const std::size_t count = std::min<std::uint64_t>({bytes, 3'000, content.size() - offset});
    std::memcpy(buffer, content.data() + offset, count);
    behind = offset + count;
    return static_cast<std::int64_t>(count);
  }

  std::vector<char> content;
  int error = 0;
  int reads = 0;  ///< That do not go on where the last one ended.
  std::uint64_t behind = ~std::uint64_t{0};
};

TEST(BlockReader, EveryByteIsTheStores) {
  const auto store = std::make_shared<CountedBytes>(100'001);
  for (const std::size_t most_blocks : {1U, 2U, 5U, 1000U}) {
    BlockReader reader(store, 1024, most_blocks);
    std::mt19937 random(2);
    std::vector<char> piece(5'000);
    for (int round = 0; round < 3'000; ++round) {
      const std::uint64_t offset = random() % store->content.size();
      const std::size_t bytes =
          std::min<std::uint64_t>(random() % (round % 5 == 0 ? 5'000 : 200), store->content.size() - offset);
      ASSERT_EQ(reader.read(piece.data(), bytes, offset), 0);
      ASSERT_EQ(std::memcmp(piece.data(), store->content.data() + offset, bytes), 0);
    }
  }
}

TEST(BlockReader, FewReadsForMany) {
  const auto store = std::make_shared<CountedBytes>(1'000'000);
  BlockReader reader(store, 1000, 16);
  std::vector<char> piece(10);
  for (std::uint64_t offset = 500'000; offset < 501'000; offset += 10) {
    ASSERT_EQ(reader.read(piece.data(), piece.size(), offset), 0);
  }
  EXPECT_EQ(store->reads, 1);
  // 1, 2, 4, and then 8 blocks at once.
  store->reads = 0;
  store->behind = ~std::uint64_t{0};
  for (std::uint64_t offset = 0; offset < 100'000; offset += 10) {
    if (offset % 1000 == 0) {
      store->behind = ~std::uint64_t{0};
    }
    ASSERT_EQ(reader.read(piece.data(), piece.size(), offset), 0);
    ASSERT_EQ(std::memcmp(piece.data(), store->content.data() + offset, piece.size()), 0);
  }
  EXPECT_LE(store->reads, 3 + 100 / 8);
}

TEST(BlockReader, FailuresAreNotKept) {
  const auto store = std::make_shared<CountedBytes>(10'000);
  BlockReader reader(store, 1000, 4);
  char piece[100];
  store->error = -EREMOTEIO;
  EXPECT_EQ(reader.read(piece, 100, 500), -EREMOTEIO);
  store->error = 0;
  EXPECT_EQ(reader.read(piece, 100, 500), 0);
  EXPECT_EQ(std::memcmp(piece, store->content.data() + 500, 100), 0);
  EXPECT_EQ(reader.read(piece, 100, 9'900), 0);
  EXPECT_EQ(reader.read(piece, 100, 9'901), -EIO);
  EXPECT_EQ(reader.read(piece, 0, 10'000), 0);
  EXPECT_EQ(reader.read(piece, 1, 20'000), -EIO);
}

}  // namespace
}  // namespace tiermap
