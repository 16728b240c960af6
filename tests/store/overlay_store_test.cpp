// What private regions stand on: changes never reach the base, and the scratch file is gone afterwards.
#include "store/overlay_store.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "store/faulty_store.hpp"
#include "store/file_size_limit.hpp"
#include "store/file_store.hpp"
#include "store/memory_store.hpp"
#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

TEST(OverlayStore, changes_never_reach_the_base) {
  const TemporaryDirectory directory;
  std::vector<char> expected(1'000'001);
  std::mt19937_64 random(3);
  std::generate(expected.begin(), expected.end(), [&] { return static_cast<char>(random()); });
  const std::string before(expected.begin(), expected.end());
  write_file(directory / "base", before);
  {
    OverlayStore overlay(FileStore::open(directory / "base", OpenMode::read_write, 0, {}), expected.size(),
                         directory.path());
    expect_equal(overlay, expected);
    random_work(overlay, expected, 0, expected.size(), 300, 4);
    expect_equal(overlay, expected);
    EXPECT_EQ(overlay.flush(), 0);
    // The scratch file has no name even while it is in use.
    std::size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      ++entries;
    }
    EXPECT_EQ(entries, 1U);
  }
  EXPECT_EQ(read_file(directory / "base"), before);
}

TEST(OverlayStore, a_failing_base_fails_a_partial_write_and_changes_nothing) {
  const TemporaryDirectory directory;
  auto base = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(8192));
  OverlayStore overlay(base, 8192, directory.path());
  base->on_read([](const FaultyStore::Call&) { return FaultyStore::fail(EIO); });
  EXPECT_EQ(overlay.write("part", 4, 10), -EIO);
  const std::vector<char> whole(4096, 'w');
  EXPECT_EQ(overlay.write(whole.data(), 4096, 4096), 4096);  // Needs nothing of the base.
  char text[4];
  EXPECT_EQ(overlay.read(text, 4, 10), -EIO);
  base->on_read([](const FaultyStore::Call&) { return FaultyStore::cut(3); });  // Short reads are asked again.
  EXPECT_EQ(overlay.write("part", 4, 10), 4);
  EXPECT_EQ(overlay.read(text, 4, 10), 4);
  EXPECT_EQ(std::string(text, 4), "part");
  EXPECT_EQ(overlay.read(text, 4, 4096), 4);
  EXPECT_EQ(std::string(text, 4), "wwww");
  EXPECT_EQ(base->writes(), 0U);
}

TEST(OverlayStore, what_was_cut_off_does_not_come_back_from_the_base) {
  const TemporaryDirectory directory;
  auto base = std::make_shared<MemoryStore>(40'000);
  const std::vector<char> ones(40'000, 1);
  ASSERT_EQ(base->write(ones.data(), ones.size(), 0), 40'000);
  OverlayStore overlay(base, 40'000, directory.path());
  ASSERT_EQ(overlay.write("xyz", 3, 9'999), 3);  // In the block that the cut goes through.
  ASSERT_EQ(overlay.resize(10'000), 0);
  ASSERT_EQ(overlay.resize(50'000), 0);
  std::vector<char> expected(50'000, 0);
  std::fill_n(expected.begin(), 10'000, 1);
  expected[9'999] = 'x';
  expect_equal(overlay, expected);
  random_work(overlay, expected, 0, expected.size(), 100, 6);
  expect_equal(overlay, expected);
}

TEST(OverlayStore, a_write_that_was_on_its_way_is_cut_off_too) {
  const TemporaryDirectory directory;
  constexpr std::uint64_t block = OverlayStore::block_bytes;
  auto base = std::make_shared<FaultyStore>(std::make_shared<MemoryStore>(8 * block));
  OverlayStore overlay(base, 8 * block, directory.path());
  base->on_read([](const FaultyStore::Call&) { return FaultyStore::stall(); });
  std::thread writer([&] { EXPECT_EQ(overlay.write("late", 4, 5 * block + 10), 4); });
  while (base->stalled() == 0) {
    std::this_thread::yield();
  }
  ASSERT_EQ(overlay.resize(2 * block), 0);
  base->on_read([](const FaultyStore::Call&) { return FaultyStore::pass(); });
  base->release();
  writer.join();
  // As a vector does once nothing is on its way any more.
  ASSERT_EQ(overlay.resize(2 * block), 0);
  ASSERT_EQ(overlay.resize(8 * block), 0);
  expect_equal(overlay, std::vector<char>(8 * block, 0));
}

TEST(OverlayStore, what_nothing_was_written_to_takes_no_room_to_be_cut) {
  const TemporaryDirectory directory;
  auto base = std::make_shared<MemoryStore>(100'000);
  std::vector<char> expected(100'000, 1);
  ASSERT_EQ(base->write(expected.data(), expected.size(), 0), 100'000);
  OverlayStore overlay(base, 100'000, directory.path());
  ASSERT_EQ(overlay.write("xyz", 3, 10), 3);
  std::memcpy(expected.data() + 10, "xyz", 3);
  const FileSizeLimit limit(8192);
  EXPECT_EQ(overlay.resize(70'001), 0);
  ASSERT_EQ(overlay.resize(100'000), 0);
  std::fill(expected.begin() + 70'001, expected.end(), 0);
  expect_equal(overlay, expected);
  ASSERT_EQ(overlay.resize(11), 0);
  ASSERT_EQ(overlay.resize(100'000), 0);
  std::fill(expected.begin() + 11, expected.end(), 0);
  expect_equal(overlay, expected);
}

TEST(OverlayStore, a_directory_that_takes_no_file_is_named) {
  try {
    OverlayStore overlay(std::make_shared<MemoryStore>(4096), 4096, "/proc");
    FAIL() << "a scratch file in /proc?";
  } catch (const StoreError& error) {
    EXPECT_NE(std::string(error.what()).find("set TMPDIR"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tiermap
