// A sparse store opens after a crash at any instant, and refuses metadata that it cannot trust.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <random>

#include "store/reference_check.hpp"
#include "store/sparse_store.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t segment = 16384;

std::unique_ptr<SparseStore> open(const std::string& path, OpenMode mode, std::uint64_t bytes = 0,
                                  std::uint64_t capacity = 0) {
  SparseOptions options;
  options.segment_bytes = mode == OpenMode::create ? segment : 0;
  options.capacity_bytes = capacity;
  return SparseStore::open(path, mode, bytes, options);
}

std::string metadata_file(const SparseMetadata& metadata) {
  const auto bytes = encode_sparse_metadata(metadata);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void expect_refused(const std::string& path, const std::string& because) {
  for (const OpenMode mode : {OpenMode::read_only, OpenMode::read_write, OpenMode::open_or_create}) {
    try {
      open(path, mode, segment);
      ADD_FAILURE() << "opened in spite of: " << because;
    } catch (const StoreError& error) {
      EXPECT_NE(std::string(error.what()).find(because), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    }
  }
}

TEST(SparseMetadata, what_is_encoded_is_decoded) {
  const SparseMetadata metadata = {1 << 20, 123 << 20, 77, true};
  EXPECT_EQ(decode_sparse_metadata(encode_sparse_metadata(metadata), "m"), metadata);
}

TEST(SparseMetadata, the_format_is_the_documented_one) {
  const std::string bytes = metadata_file({4096, 8192, 5000, false});
  ASSERT_EQ(bytes.size(), 64U);
  EXPECT_EQ(bytes.substr(0, 8), "TIERSPRS");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\1\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(16, 8), std::string("\0\x10\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(24, 8), std::string("\0\x20\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(32, 8), std::string("\x88\x13\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(40, 16), std::string(16, '\0'));
}

TEST(SparseMetadata, every_flipped_bit_and_every_truncation_is_refused) {
  const SparseMetadata metadata = {1 << 20, 123 << 20, 77, false};
  const auto good = encode_sparse_metadata(metadata);
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_THROW(decode_sparse_metadata(bad, "m"), StoreError) << "bit " << bit;
  }
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_THROW(decode_sparse_metadata(std::span(good.data(), bytes), "m"), StoreError) << bytes << " bytes";
  }
}

TEST(SparseMetadata, impossible_values_are_refused_though_the_checksum_is_right) {
  const SparseMetadata impossible[] = {{0, 4096, 0, false},
                                       {5000, 50000, 0, false},
                                       {4096, 4096, 4097, false},
                                       {4096, std::uint64_t{1} << 63, 0, false},
                                       {~std::uint64_t{4095}, 1, 1, false}};
  for (const SparseMetadata& metadata : impossible) {
    EXPECT_THROW(decode_sparse_metadata(encode_sparse_metadata(metadata), "m"), StoreError);
  }
}

TEST(SparseCrash, bad_metadata_is_refused_by_name_and_nothing_is_changed) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  open(path, OpenMode::create, 4 * segment);
  const std::string good = read_file(path + "/metadata");
  std::string future = good;
  future[8] = 9;
  std::string damaged = good;
  damaged[33] = 1;
  const std::pair<std::string, std::string> table[] = {{good.substr(0, 40), "truncated"},
                                                       {"", "truncated"},
                                                       {good + "x", "damaged"},
                                                       {damaged, "checksum"},
                                                       {future, "version 9"},
                                                       {std::string(64, 'z'), "is not the metadata"}};
  for (const auto& [content, because] : table) {
    write_file(path + "/metadata", content);
    expect_refused(path, because);
    EXPECT_EQ(read_file(path + "/metadata"), content);
  }
  write_file(path + "/metadata", good);
  EXPECT_NO_THROW(open(path, OpenMode::read_write));
}

TEST(SparseCrash, leftovers_of_every_instant_are_put_right) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  std::vector<char> expected(4 * segment);
  {
    const auto store = open(path, OpenMode::create, 4 * segment);
    ASSERT_EQ(store->write("first", 5, 0), 5);
    std::memcpy(expected.data(), "first", 5);
  }
  write_file(path + "/metadata.new", "half of the metad");           // while metadata was replaced
  write_file(path + "/segment-2.new.12345", std::string(100, 'x'));  // while a segment was made
  write_file(path + "/segment-0000000003", "");                      // its name durable, its length not
  {
    const auto reader = open(path, OpenMode::read_only);
    expect_equal(*reader, expected);
  }
  const auto store = open(path, OpenMode::read_write);
  expect_equal(*store, expected);
  EXPECT_FALSE(std::filesystem::exists(path + "/metadata.new"));
  EXPECT_FALSE(std::filesystem::exists(path + "/segment-2.new.12345"));
  EXPECT_EQ(std::filesystem::file_size(path + "/segment-0000000003"), segment);
  random_work(*store, expected, 0, expected.size(), 100, 1);
  expect_equal(*store, expected);
}

TEST(SparseCrash, a_creation_cut_short_can_be_done_again) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  ASSERT_TRUE(std::filesystem::create_directory(path));
  write_file(path + "/lock", "");
  write_file(path + "/metadata.new", "TIER");
  EXPECT_THROW(open(path, OpenMode::read_write), StoreError);
  const auto store = open(path, OpenMode::create, segment);
  EXPECT_EQ(store->size_bytes(), segment);
  EXPECT_FALSE(std::filesystem::exists(path + "/metadata.new"));
}

TEST(SparseCrash, a_cut_that_was_interrupted_is_finished) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  {
    const auto store = open(path, OpenMode::create, 4 * segment);
    const std::vector<char> ones(4 * segment, 1);
    ASSERT_EQ(store->write(ones.data(), ones.size(), 0), static_cast<std::int64_t>(ones.size()));
  }
  // As it is right after the metadata and before the first segment was emptied.
  write_file(path + "/metadata", metadata_file({segment, 4 * segment, segment + 10, true}));
  std::vector<char> expected(segment + 10, 1);
  {
    const auto reader = open(path, OpenMode::read_only);
    expect_equal(*reader, expected);
  }
  const auto store = open(path, OpenMode::read_write);
  ASSERT_EQ(store->resize(4 * segment), 0);
  expected.resize(4 * segment, 0);
  expect_equal(*store, expected);
}

TEST(SparseCrash, foreign_segments_are_refused) {
  const TemporaryDirectory directory;
  const std::string path = directory / "s";
  open(path, OpenMode::create, 4 * segment);
  const auto refuse = [&](const std::string& name, auto make, const std::string& because) {
    make(path + "/" + name);
    expect_refused(path, because);
    std::filesystem::remove_all(path + "/" + name);
  };
  refuse("segment-0000000004", [](const std::string& file) { write_file(file, "x"); }, "past the capacity");
  refuse(
      "segment-0000000001", [](const std::string& file) { write_file(file, std::string(segment + 1, 'x')); },
      "more than");
  refuse(
      "segment-0000000001", [](const std::string& file) { std::filesystem::create_directory(file); },
      "no regular file");
  EXPECT_NO_THROW(open(path, OpenMode::read_write));
}

/// Writes page after page, each full of its own number; after each flush it says so in `progress`.
[[noreturn]] void write_until_killed(const std::string& path, const std::string& progress) {
  const auto store = open(path, OpenMode::read_write);
  const int report = ::open(progress.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const AlignedBuffer page = aligned_buffer(4096);
  for (std::uint64_t number = 1;; ++number) {
    std::fill_n(reinterpret_cast<std::uint64_t*>(page.get()), 512, number);
    const bool good = engine_write(*store, page.get(), 4096, (number - 1) * 4096) == 0;
    if (!good || (number % 5 == 0 && (store->flush() != 0 || ::pwrite(report, &number, 8, 0) != 8))) {
      ::_exit(1);
    }
  }
}

TEST(SparseCrash, kill_9_at_random_moments_loses_nothing_that_was_flushed) {
  const TemporaryDirectory directory;
  std::mt19937_64 random(7);
  for (int round = 0; round < 6; ++round) {
    const std::string path = directory / ("s" + std::to_string(round));
    open(path, OpenMode::create, 1, 3000 * segment);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      write_until_killed(path, directory / "progress");
    }
    ::usleep(static_cast<useconds_t>(20'000 + random() % 150'000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    std::uint64_t flushed = 0;
    const std::string said = read_file(directory / "progress");
    std::memcpy(&flushed, said.data(), std::min<std::size_t>(said.size(), 8));
    std::filesystem::remove(directory / "progress");
    const auto store = open(path, OpenMode::read_write);
    ASSERT_GE(store->size_bytes(), flushed * 4096);
    const AlignedBuffer page = aligned_buffer(4096);
    for (std::uint64_t number = 1; number <= flushed; ++number) {
      ASSERT_EQ(engine_read(*store, page.get(), 4096, (number - 1) * 4096), 0);
      const auto* words = reinterpret_cast<const std::uint64_t*>(page.get());
      ASSERT_TRUE(std::all_of(words, words + 512, [&](std::uint64_t word) { return word == number; })) << number;
    }
  }
}

}  // namespace
}  // namespace tiermap
