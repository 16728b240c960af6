// What a server has at rest is verified: a bit that changes there is found, made good from a copy or an error, and
// never read.
#include "cluster/server/checked_store.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include "cluster/flip_in_file.hpp"
#include "cluster/remote/memory_client.hpp"
#include "cluster/served_stores.hpp"
#include "cluster/wire_fixture.hpp"
#include "store/memory_store.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t block = checked_block_bytes;
constexpr std::uint64_t mebi = 1 << 20;

std::int64_t put(Store& store, std::span<const std::byte> content, std::uint64_t offset) {
  return store.write(content.data(), content.size(), offset);
}

std::int64_t get(Store& store, std::span<std::byte> content, std::uint64_t offset) {
  return store.read(content.data(), content.size(), offset);
}

/// Past the checks.
void flip(Store& base, std::uint64_t offset) {
  std::byte one{};
  base.read(&one, 1, offset);
  one ^= std::byte{4};
  base.write(&one, 1, offset);
}

TEST(CheckedStoreTest, IsTheStoreThatItChecks) {
  for (const auto before : {CheckedStore::Before::zeros, CheckedStore::Before::unknown}) {
    std::mt19937_64 random(7);
    std::vector<std::byte> model(5 * block + 77);
    CheckedStore store(std::make_shared<MemoryStore>(model.size()), before);
    for (std::uint64_t round = 0; round < 3000; ++round) {
      if (round % 50 == 49) {
        model.resize(random() % (12 * block) + 1);
        ASSERT_EQ(store.resize(model.size()), 0);
      }
      const std::uint64_t offset = random() % model.size();
      const std::uint64_t bytes = std::min<std::uint64_t>(random() % (3 * block) + 1, model.size() - offset);
      if (random() % 2 == 0) {
        const auto content = test_body(bytes, round);
        ASSERT_EQ(put(store, content, offset), static_cast<std::int64_t>(bytes));
        std::ranges::copy(content, model.begin() + static_cast<std::ptrdiff_t>(offset));
      }
      std::vector<std::byte> got(bytes);
      ASSERT_EQ(get(store, got, offset), static_cast<std::int64_t>(bytes));
      ASSERT_TRUE(same_bytes(got, std::span(model).subspan(offset, bytes))) << round;
    }
    EXPECT_EQ(store.damaged(), 0U);
  }
}

TEST(CheckedStoreTest, AFlippedBitIsFoundWhereverItIs) {
  const auto base = std::make_shared<MemoryStore>(4 * block + 100);
  CheckedStore store(base, CheckedStore::Before::zeros);
  const auto content = test_body(2 * block, 1);
  ASSERT_EQ(put(store, content, 0), static_cast<std::int64_t>(2 * block));
  std::vector<std::byte> got(4 * block + 100);
  // Written, never written, and of the last block, which is short.
  for (const std::uint64_t offset : {block + 5, 3 * block, 4 * block + 99}) {
    flip(*base, offset);
    EXPECT_EQ(get(store, got, 0), -EUCLEAN) << offset;
    EXPECT_EQ(store.last_damaged(), offset / block);
    EXPECT_EQ(get(store, std::span(got).first(1), offset / block * block), -EUCLEAN);
    EXPECT_EQ(get(store, std::span(got).first(block), 0), static_cast<std::int64_t>(block));
    EXPECT_EQ(put(store, std::span(content).first(1), offset), -EUCLEAN);  // Of the rest nobody knows what it was.
    flip(*base, offset);
    EXPECT_EQ(get(store, got, 0), static_cast<std::int64_t>(got.size()));
  }
  flip(*base, block + 5);
  EXPECT_EQ(put(store, std::span(content).first(block), block), static_cast<std::int64_t>(block));
  EXPECT_EQ(get(store, std::span(got).first(block), block), static_cast<std::int64_t>(block));
}

TEST(CheckedStoreTest, OnlyWhatWasWrittenMends) {
  const auto base = std::make_shared<MemoryStore>(2 * block + 10);
  CheckedStore store(base, CheckedStore::Before::zeros);
  const auto content = test_body(2 * block + 10, 2);
  ASSERT_EQ(put(store, content, 0), static_cast<std::int64_t>(content.size()));
  flip(*base, block);
  flip(*base, 2 * block + 9);
  EXPECT_EQ(store.mend(block, std::span(content).first(block)), -EAGAIN);
  EXPECT_EQ(store.mend(block, std::span(content).first(10)), -EINVAL);
  EXPECT_EQ(store.mend(block, std::span(content).subspan(block, block)), 0);
  EXPECT_EQ(store.mend(2 * block, std::span(content).subspan(2 * block)), 0);
  EXPECT_EQ(store.mend(0, std::span(content).subspan(block, block)), 0);  // Not damaged: it stays.
  EXPECT_EQ(store.mended(), 2U);
  std::vector<std::byte> got(content.size());
  EXPECT_EQ(get(store, got, 0), static_cast<std::int64_t>(got.size()));
  EXPECT_TRUE(same_bytes(got, content));
}

TEST(CheckedStoreTest, WhatWasThereIsKnownFromItsFirstRead) {
  const auto base = std::make_shared<MemoryStore>(2 * block);
  const auto content = test_body(2 * block, 3);
  put(*base, content, 0);
  CheckedStore store(base, CheckedStore::Before::unknown);
  std::vector<std::byte> got(block);
  EXPECT_EQ(get(store, got, 0), static_cast<std::int64_t>(block));
  flip(*base, 17);
  flip(*base, block + 17);
  EXPECT_EQ(get(store, got, 0), -EUCLEAN);
  EXPECT_EQ(get(store, got, block), static_cast<std::int64_t>(block));
}

TEST(CheckedStoreTest, WritersOfPartsOfABlockAndReadersDoNotDisturbEachOther) {
  const auto base = std::make_shared<MemoryStore>(2 * block);
  CheckedStore store(base, CheckedStore::Before::zeros);
  constexpr std::uint64_t part = block / 4 + 300;  // Not one ends where a block does.
  std::atomic<std::uint64_t> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      std::vector<std::byte> got(part);
      for (std::uint64_t round = 0; round < 1000; ++round) {
        const auto content = test_body(part, number * 1000 + round);
        wrong += put(store, content, number * part) == static_cast<std::int64_t>(part) ? 0 : 1;
        wrong += get(store, got, number * part) == static_cast<std::int64_t>(part) && same_bytes(got, content) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(store.damaged(), 0U);
}

/// Takes so many bytes, and then none.
class FullStore final : public ForwardingStore {
 public:
  explicit FullStore(std::uint64_t bytes) : ForwardingStore(std::make_shared<MemoryStore>(bytes)) {}
  std::int64_t write(const void* buffer, std::size_t bytes, std::uint64_t offset) override {
    if (left == 0) {
      return -ENOSPC;
    }
    const std::size_t take = std::min(bytes, left);
    left -= take;
    return base_->write(buffer, take, offset);
  }
  std::size_t left = 0;
};

TEST(CheckedStoreTest, AWriteThatFailsHalfwayLeavesNoDamage) {
  const auto base = std::make_shared<FullStore>(4 * block);
  CheckedStore store(base, CheckedStore::Before::zeros);
  base->left = block + 100;
  const auto content = test_body(3 * block, 4);
  EXPECT_EQ(put(store, content, 0), static_cast<std::int64_t>(block + 100));
  EXPECT_EQ(put(store, content, 0), -ENOSPC);
  std::vector<std::byte> got(4 * block);
  EXPECT_EQ(get(store, got, 0), static_cast<std::int64_t>(4 * block));
  EXPECT_TRUE(same_bytes(std::span(got).first(block + 100), std::span(content).first(block + 100)));
}

/// The files without a name of this process that were made in a folder, in the order in which they were opened.
std::vector<std::string> files_without_a_name(const std::string& folder) {
  const std::string inside = "/" + std::filesystem::path(folder).filename().string() + "/";
  std::map<int, std::string> open;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.find(inside) != std::string::npos && target.find("(deleted)") != std::string::npos) {
      open.emplace(std::stoi(entry.path().filename().string()), entry.path().string());
    }
  }
  std::set<std::uint64_t> seen;
  std::vector<std::string> files;
  for (const auto& [number, path] : open) {
    struct ::stat status{};
    if (::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && seen.insert(status.st_ino).second) {
      files.push_back(path);
    }
  }
  return files;
}

class AtRestTest : public ::testing::Test {
 protected:
  ServerOptions options() const {
    ServerOptions server = test_server_options();
    server.directory = std::filesystem::absolute(directory.path());
    server.directory_bytes = 32 * mebi;
    return server;
  }
  static DataSetLine facts(const ServedStores& served, std::size_t server) {
    Wire wire{WireOptions{}};
    return MemoryClient(wire, served.addresses[server], {}).list("set").at(0);
  }
  const TemporaryDirectory directory{"."};
};

TEST_F(AtRestTest, WithoutACopyItIsAnErrorThatNamesTheBlock) {
  const ServedStores served(1, options());
  const auto store = open_store(served.url("set", "?place=directory"), OpenMode::create, mebi);
  const auto content = test_body(mebi, 5);
  ASSERT_EQ(put(*store, content, 0), static_cast<std::int64_t>(mebi));
  ASSERT_EQ(store->flush(), 0);
  const auto files = files_without_a_name(directory.path());
  ASSERT_EQ(files.size(), 1U);
  flip_in_file(files[0], 3 * block + 1);
  std::vector<std::byte> got(mebi);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(get(*store, std::span(got).first(block), 3 * block), -EIO);
  EXPECT_EQ(put(*store, std::span(content).first(8), 3 * block + 8), -EIO);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("server '" + served.addresses[0].text() + "': data set 'set' in directory: block 3 (bytes 12288"),
            std::string::npos)
      << said;
  EXPECT_EQ(get(*store, std::span(got).first(block), 2 * block), static_cast<std::int64_t>(block));
  EXPECT_GE(facts(served, 0).damaged, 2U);
  EXPECT_EQ(put(*store, std::span(content).subspan(3 * block, block), 3 * block), static_cast<std::int64_t>(block));
  EXPECT_EQ(get(*store, got, 0), static_cast<std::int64_t>(mebi));
  EXPECT_TRUE(same_bytes(got, content));
}

TEST_F(AtRestTest, ATiersFileIsCheckedToo) {
  const TemporaryDirectory fast(".");
  ServerOptions server = options();
  server.tiers.emplace();
  server.tiers->tiers.resize(1);
  server.tiers->tiers[0].kind = TierKind::directory;
  server.tiers->tiers[0].path = std::filesystem::absolute(fast.path());
  server.tiers->tiers[0].capacity_bytes = 2 * mebi;
  const ServedStores served(1, server);
  const auto store = open_store(served.url("set", "?place=directory"), OpenMode::create, mebi);
  const auto content = test_body(mebi, 6);
  ASSERT_EQ(put(*store, content, 0), static_cast<std::int64_t>(mebi));
  const auto files = files_without_a_name(fast.path());
  ASSERT_EQ(files.size(), 1U);
  flip_in_file(files[0], 5 * block);
  std::vector<std::byte> got(mebi);
  EXPECT_EQ(get(*store, got, 0), -EIO);
  EXPECT_GE(facts(served, 0).damaged, 1U);
}

TEST_F(AtRestTest, ACopyAnswersAndMakesItGoodWhileOthersWrite) {
  ServedStores served(2, options());
  const auto store = open_store(served.url("set", "?layout=replicated&place=directory"), OpenMode::create, mebi);
  auto content = test_body(mebi, 7);
  ASSERT_EQ(put(*store, content, 0), static_cast<std::int64_t>(mebi));
  const auto files = files_without_a_name(directory.path());
  ASSERT_EQ(files.size(), 2U);
  std::atomic<bool> end{false};
  std::atomic<std::uint64_t> wrong{0};
  // Each thread writes a part of every block, and reads it; a third flips bits of one file where nobody writes.
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 2; ++number) {
    threads.emplace_back([&, number] {
      std::mt19937_64 random(number);
      std::vector<std::byte> got(1000);
      while (!end) {
        const std::uint64_t offset = random() % 16 * block + number * 1000;
        const auto part = test_body(got.size(), random());
        wrong += put(*store, part, offset) == static_cast<std::int64_t>(got.size()) ? 0 : 1;
        wrong += get(*store, got, offset) == static_cast<std::int64_t>(got.size()) && same_bytes(got, part) ? 0 : 1;
        std::ranges::copy(part, content.begin() + static_cast<std::ptrdiff_t>(offset));
      }
    });
  }
  for (std::uint64_t round = 0; round < 200; ++round) {
    flip_in_file(files[0], round % 16 * block + 3000);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  end = true;
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0U);
  std::vector<std::byte> got(mebi);
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(get(*store, std::span(got).first(1), 0), 1);  // So that the next pieces come from other copies.
    EXPECT_EQ(get(*store, got, 0), static_cast<std::int64_t>(mebi));
    EXPECT_TRUE(same_bytes(got, content));
  }
  EXPECT_GT(facts(served, 0).damaged, 0U);
  EXPECT_EQ(facts(served, 1).damaged, 0U);
  served.servers[1].reset();  // What is left is the copy that was damaged.
  EXPECT_EQ(get(*store, got, 0), static_cast<std::int64_t>(mebi));
  EXPECT_TRUE(same_bytes(got, content));
}

TEST_F(AtRestTest, WhatAReaderFindsIsMadeGood) {
  ServedStores served(2, options());
  const std::string url = served.url("set", "?layout=striped&copies=2&stripe=64KiB&place=directory");
  const auto content = test_body(mebi, 8);
  {
    const auto store = open_store(url, OpenMode::create, mebi);
    ASSERT_EQ(put(*store, content, 0), static_cast<std::int64_t>(mebi));
  }
  const auto files = files_without_a_name(directory.path());
  ASSERT_EQ(files.size(), 2U);
  flip_in_file(files[0], 2 * block);
  flip_in_file(files[1], 40 * block + 9);
  const auto store = open_store(url, OpenMode::read_only);
  std::vector<std::byte> got(mebi);
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(get(*store, std::span(got).first(1), 0), 1);  // So that the next pieces come from other copies.
    EXPECT_EQ(get(*store, got, 0), static_cast<std::int64_t>(mebi));
    EXPECT_TRUE(same_bytes(got, content));
  }
  EXPECT_EQ(facts(served, 0).mended + facts(served, 1).mended, 2U);
}

}  // namespace
}  // namespace tiermap
