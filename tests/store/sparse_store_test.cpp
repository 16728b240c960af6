// Sparse stores: segments on first write, growth, many first writers, one writer only, limits of open files.
#include "store/sparse_store.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "store/reference_check.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t segment = 65536;

std::unique_ptr<SparseStore> open(const std::string& path, OpenMode mode, std::uint64_t bytes = 0,
                                  std::uint64_t capacity = 0) {
  SparseOptions options;
  options.segment_bytes = mode == OpenMode::create ? segment : 0;
  options.capacity_bytes = capacity;
  return SparseStore::open(path, mode, bytes, options);
}

std::size_t count_segments(const std::string& path) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    count += entry.path().filename().string().starts_with("segment-") ? 1U : 0U;
  }
  return count;
}

TEST(SparseStore, a_segment_is_made_by_the_first_write_to_it_and_takes_no_more_room) {
  const TemporaryDirectory directory;
  const auto store = SparseStore::open(directory / "s", OpenMode::create, std::uint64_t{1} << 40, SparseOptions());
  EXPECT_EQ(store->segment_bytes(), 256U << 20);
  EXPECT_EQ(count_segments(directory / "s"), 0U);
  Extent extent;
  EXPECT_TRUE(store->locate_read(1 << 30, 4096, extent));
  EXPECT_TRUE(extent.hole);
  const AlignedBuffer page = aligned_buffer(4096);
  std::memset(page.get(), 1, 4096);
  ASSERT_EQ(engine_write(*store, page.get(), 4096, std::uint64_t{1} << 39), 0);
  EXPECT_EQ(count_segments(directory / "s"), 1U);
  struct stat status = {};
  ASSERT_EQ(::stat((directory / "s/segment-0000002048").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 256 << 20);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
  EXPECT_TRUE(store->locate_read(std::uint64_t{1} << 39, 4096, extent));
  EXPECT_FALSE(extent.hole);
}

TEST(SparseStore, holds_its_bytes_across_opens) {
  const TemporaryDirectory directory;
  std::vector<char> expected(1'000'003);
  {
    const auto store = open(directory / "s", OpenMode::create, expected.size());
    random_work(*store, expected, 0, expected.size(), 200, 5);
    ASSERT_EQ(store->flush(), 0);
  }
  {
    const auto store = open(directory / "s", OpenMode::read_only);
    EXPECT_FALSE(store->writable());
    EXPECT_EQ(store->write("x", 1, 0), -EROFS);
    EXPECT_EQ(store->resize(5), -EROFS);
    expect_equal(*store, expected);
  }
  const auto store = open(directory / "s", OpenMode::open_or_create, 7);
  expect_equal(*store, expected);
}

TEST(SparseStore, writes_raise_the_size_up_to_the_capacity) {
  const TemporaryDirectory directory;
  {
    const auto store = open(directory / "s", OpenMode::create, 100, 10 * segment);
    EXPECT_EQ(store->size_bytes(), 100U);
    EXPECT_TRUE(store->growable());
    ASSERT_EQ(store->write("end", 3, 5 * segment - 1), 3);
    EXPECT_EQ(store->size_bytes(), 5 * segment + 2);
    EXPECT_EQ(store->write("past", 4, 10 * segment - 2), -EFBIG);
    EXPECT_EQ(store->size_bytes(), 5 * segment + 2);
  }
  // Closing keeps the size even without a flush.
  const auto store = open(directory / "s", OpenMode::read_write, 0, 20 * segment);
  EXPECT_EQ(store->size_bytes(), 5 * segment + 2);
  EXPECT_EQ(store->capacity_bytes(), 20 * segment);
  char text[4] = {};
  EXPECT_EQ(store->read(text, 4, 5 * segment - 1), 3);
  EXPECT_STREQ(text, "end");
  ASSERT_EQ(store->resize(30 * segment), 0);
  EXPECT_EQ(store->capacity_bytes(), 30 * segment);
  EXPECT_FALSE(store->growable());
}

TEST(SparseStore, a_cut_gives_room_back_and_keeps_handed_out_descriptors_good) {
  const TemporaryDirectory directory;
  const auto store = open(directory / "s", OpenMode::create, 8 * segment);
  const std::vector<char> ones(8 * segment, 1);
  ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(ones.size()));
  Extent extent;
  ASSERT_TRUE(store->locate_read(6 * segment, 4096, extent));
  ASSERT_EQ(store->resize(segment), 0);
  const AlignedBuffer page = aligned_buffer(4096);
  EXPECT_EQ(::pread(extent.file_descriptor, page.get(), 4096, 0), 4096);
  EXPECT_EQ(page.get()[0], 0);
  struct stat status = {};
  ASSERT_EQ(::fstat(extent.file_descriptor, &status), 0);
  EXPECT_EQ(status.st_blocks, 0);
}

TEST(SparseStore, threads_that_write_first_to_one_segment_see_one_segment) {
  const TemporaryDirectory directory;
  constexpr std::size_t threads = 16;
  const auto store = open(directory / "s", OpenMode::create, 40 * segment);
  std::vector<std::thread> workers;
  for (std::size_t thread = 0; thread < threads; ++thread) {
    workers.emplace_back([&, thread] {
      const AlignedBuffer page = aligned_buffer(4096);
      std::memset(page.get(), static_cast<int>(thread + 1), 4096);
      for (std::uint64_t index = 0; index < 40; ++index) {
        EXPECT_EQ(engine_write(*store, page.get(), 4096, index * segment + thread * 4096), 0);
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(count_segments(directory / "s"), 40U);
  std::vector<char> expected(40 * segment);
  for (std::size_t offset = 0; offset < expected.size(); ++offset) {
    expected[offset] = static_cast<char>(offset % segment / 4096 + 1);
  }
  expect_equal(*store, expected);
}

TEST(SparseStore, forked_processes_that_write_first_to_one_segment_keep_each_others_data) {
  const TemporaryDirectory directory;
  constexpr std::size_t processes = 6;
  const auto store = open(directory / "s", OpenMode::create, 20 * segment);
  std::vector<pid_t> children;
  for (std::size_t process = 0; process < processes; ++process) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const AlignedBuffer page = aligned_buffer(4096);
      std::memset(page.get(), static_cast<int>(process + 1), 4096);
      bool good = true;
      for (std::uint64_t index = 0; index < 20; ++index) {
        good = good && store->write(page.get(), 4096, index * segment + process * 4096) == 4096;
      }
      ::_exit(good && store->flush() == 0 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(count_segments(directory / "s"), 20U);
  // The parent's table still says that the segments are absent: its first write finds them made.
  ASSERT_EQ(store->write("p", 1, processes * 4096), 1);
  char bytes[processes * 4096 + 1];
  ASSERT_EQ(store->read(bytes, sizeof(bytes), 0), static_cast<std::int64_t>(sizeof(bytes)));
  for (std::size_t process = 0; process < processes; ++process) {
    EXPECT_EQ(bytes[process * 4096], static_cast<char>(process + 1));
  }
  EXPECT_EQ(bytes[processes * 4096], 'p');
}

TEST(SparseStore, one_writer_or_many_readers) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  auto writer = open(path, OpenMode::create, segment);
  for (const OpenMode mode : {OpenMode::read_write, OpenMode::open_or_create, OpenMode::read_only}) {
    try {
      open(path, mode);
      FAIL() << "a second one was let in";
    } catch (const StoreError& error) {
      EXPECT_EQ(error.code().value(), EBUSY);
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos);
      EXPECT_NE(std::string(error.what()).find("close it there first"), std::string::npos);
    }
  }
  writer.reset();
  const auto first = open(path, OpenMode::read_only);
  const auto second = open(path, OpenMode::read_only);
  EXPECT_THROW(open(path, OpenMode::read_write), StoreError);
}

TEST(SparseStore, only_one_of_many_creators_wins) {
  const TemporaryDirectory directory;
  std::atomic<int> made{0};
  std::vector<std::thread> workers;
  std::vector<std::unique_ptr<SparseStore>> stores(8);
  for (auto& place : stores) {
    workers.emplace_back([&] {
      try {
        place = open(directory / "s", OpenMode::create, segment);
        ++made;
      } catch (const StoreError& error) {
        // A loser may also see the winner's first files before they are a store.
        const int number = error.code().value();
        EXPECT_TRUE(number == EBUSY || number == EEXIST || number == ENOTEMPTY) << error.what();
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  EXPECT_EQ(made.load(), 1);
}

TEST(SparseStore, creation_takes_an_empty_directory_and_no_other) {
  const TemporaryDirectory directory;
  ASSERT_TRUE(std::filesystem::create_directory(directory / "empty"));
  EXPECT_NO_THROW(open(directory / "empty", OpenMode::create, segment));
  ASSERT_TRUE(std::filesystem::create_directory(directory / "full"));
  write_file(directory / "full/letter", "mine");
  EXPECT_THROW(open(directory / "full", OpenMode::create, segment), StoreError);
  EXPECT_THROW(open(directory / "full", OpenMode::open_or_create, segment), StoreError);
  EXPECT_THROW(open(directory / "full", OpenMode::read_write), StoreError);
  std::size_t entries = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory / "full")) {
    EXPECT_EQ(entry.path().filename(), "letter");
    ++entries;
  }
  EXPECT_EQ(entries, 1U);
}

TEST(SparseStore, more_segments_than_files_may_be_open_are_refused_with_the_size_to_take) {
  const TemporaryDirectory directory;
  SparseOptions options;
  options.segment_bytes = 4096;
  try {
    SparseStore::open(directory / "s", OpenMode::create, std::uint64_t{1} << 40, options);
    FAIL() << "268 million open files?";
  } catch (const StoreError& error) {
    EXPECT_EQ(error.code().value(), EMFILE);
    EXPECT_NE(std::string(error.what()).find("choose segments of"), std::string::npos) << error.what();
  }
  EXPECT_FALSE(std::filesystem::exists(directory / "s"));
}

// Those of a store that is there cannot be chosen, and no size of segments helps where hardly a file may be open.
TEST(SparseStore, a_size_of_segments_is_advised_only_where_it_helps) {
  const TemporaryDirectory directory;
  open(directory / "s", OpenMode::create, 1 << 20);
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{40, 40};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (const bool is_new : {false, true}) {
      try {
        open(directory / (is_new ? "new" : "s"), is_new ? OpenMode::create : OpenMode::read_only, is_new ? 1 << 20 : 0);
        ::_exit(1);
      } catch (const StoreError& error) {
        const std::string_view text = error.what();
        if (text.find("choose") != std::string_view::npos || text.find("raise the limit") == std::string_view::npos) {
          ::_exit(2);
        }
      }
    }
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SparseStore, raises_a_soft_limit_that_is_too_low) {
  struct rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 700) {
    GTEST_SKIP() << "the hard limit of open files is only " << before.rlim_max;
  }
  const struct rlimit low = {100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  {
    const TemporaryDirectory directory;
    SparseOptions options;
    options.segment_bytes = 4096;
    const auto store = SparseStore::open(directory / "s", OpenMode::create, 400 * 4096, options);
    const std::vector<char> ones(400 * 4096, 1);
    EXPECT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(ones.size()));
    expect_equal(*store, ones);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace tiermap
