// What a creation leaves that was cut short: making a heap there replaces it, and nothing else.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "heap/heap_fixture.hpp"
#include "heap/heap_layout.hpp"
#include "heap/unfinished_creation.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {
namespace {

class UnfinishedCreation : public HeapTest {
 protected:
  /// A heap as it is before its superblock is written, which comes last.
  void make_all_but_superblock(const HeapOptions& options) const {
    Heap::create(path_, options).close();
    overwrite(first_data_file(options), HeapLayout::superblock_offset, std::string(4096, '\0'));
    if (options.checkpoints) {
      for (const std::streamoff record : {4096, 8192}) {
        overwrite(path_ + "/journal", record + 16, std::string(8, '\0'));  // How many commits there were.
      }
    }
  }
  std::string first_data_file(const HeapOptions& options) const {
    return path_ + (options.backing == HeapBacking::sparse ? "/data/segment-0000000000" : "/data");
  }
  static void overwrite(const std::string& file, std::streamoff at, const std::string& bytes) {
    std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(at) << bytes;
  }
  static std::vector<HeapOptions> kinds() {
    std::vector<HeapOptions> kinds;
    for (const HeapBacking backing : {HeapBacking::file, HeapBacking::sparse}) {
      for (const bool checkpoints : {true, false}) {
        kinds.push_back(small());
        kinds.back().backing = backing;
        kinds.back().checkpoints = checkpoints;
      }
    }
    return kinds;
  }
};

TEST_F(UnfinishedCreation, a_journal_alone_is_told_and_replaced) {
  std::filesystem::create_directory(path_);
  write_file(path_ + "/journal", "");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, small()); }), "nothing is in it: create it anew"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::check(path_); }), "made only in part"));
  Heap::open_or_create(path_, small()).construct<int>("answer")(42);
  EXPECT_EQ(*Heap::open(path_, small()).find<int>("answer"), 42);
}

TEST_F(UnfinishedCreation, all_but_the_superblock_is_told_and_replaced) {
  for (const HeapOptions& options : kinds()) {
    make_all_but_superblock(options);
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path_, options); }), "create it anew"));
    Heap::create(path_, options).construct<int>("answer")(42);
    EXPECT_EQ(*Heap::open(path_, options).find<int>("answer"), 42);
    Heap::remove(path_);
    make_all_but_superblock(options);
    EXPECT_NO_THROW(Heap::open_or_create(path_, options).close());
    EXPECT_TRUE(Heap::check(path_).sound());
    Heap::remove(path_);
  }
}

TEST_F(UnfinishedCreation, a_sparse_store_that_was_begun_is_replaced) {
  std::filesystem::create_directories(path_ + "/data");
  write_file(path_ + "/journal", "");
  EXPECT_TRUE(is_unfinished_creation(path_));
  write_file(path_ + "/data/lock", "");
  write_file(path_ + "/data/segment-0.new.123", "");
  EXPECT_TRUE(is_unfinished_creation(path_));
  HeapOptions sparse = small();
  sparse.backing = HeapBacking::sparse;
  EXPECT_NO_THROW(Heap::create(path_, sparse).close());
  EXPECT_TRUE(Heap::check(path_).sound());
}

TEST_F(UnfinishedCreation, a_heap_that_lost_its_superblock_is_left_as_it_is) {
  for (const HeapOptions& options : kinds()) {
    Heap::create(path_, options).construct<int>("answer")(42);
    const std::string data = first_data_file(options);
    std::string before(4096, '\0');
    std::ifstream(data, std::ios::binary).read(before.data(), 4096);
    overwrite(data, 0, std::string(4096, '\0'));
    EXPECT_FALSE(is_unfinished_creation(path_));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, options); }), "exists already"));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path_, options); }), "does not begin as a heap's"));
    overwrite(data, 0, before);
    EXPECT_EQ(*Heap::open(path_, options).find<int>("answer"), 42);
    Heap::remove(path_);
  }
}

TEST_F(UnfinishedCreation, what_was_committed_or_is_not_of_a_heap_is_left_as_it_is) {
  Heap::create(path_, small()).close();
  std::filesystem::rename(path_ + "/data", directory_ / "elsewhere");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, small()); }), "has lost its data: put that back"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path_, small()); }), "has lost its data"));
  std::filesystem::rename(directory_ / "elsewhere", path_ + "/data");
  EXPECT_NO_THROW(Heap::open(path_, small()));
  const std::string other = directory_ / "other";
  std::filesystem::create_directory(other);
  write_file(other + "/journal", "");
  write_file(other + "/letter", "mine");
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(other, small()); }), "other"));
  EXPECT_EQ(read_file(other + "/letter"), "mine");
}

TEST_F(UnfinishedCreation, one_that_somebody_makes_is_not_replaced) {
  std::filesystem::create_directory(path_);
  write_file(path_ + "/journal", "");
  const FileDescriptor maker(::open((path_ + "/journal").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::flock(maker.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path_, small()); }), "in use"));
  EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path_, small()); }), "in use"));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/journal"));
}

TEST_F(UnfinishedCreation, what_is_no_path_is_refused) {
  const std::string with_zero = path_ + std::string("\0more", 5);
  for (const std::string& path : {std::string(), with_zero}) {
    const char* const expected = path.empty() ? "is empty: name one" : "a byte of zero";
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::create(path, small()); }), expected));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open(path, small()); }), expected));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::open_or_create(path, small()); }), expected));
    EXPECT_TRUE(says(refusal<StoreError>([&] { Heap::remove(path); }), expected));
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

/// Each number where little is open, and some above, as a sparse store wants some for the program.
rlim_t next(rlim_t most) {
  return most < 20 ? most + 1 : most + 9;
}

/// Run in a process of its own, whose limit cannot be raised again. Exits with 0 for a success, 1 for an error that
/// names the limit, 2 for another one, 3 if anything stayed behind.
template <typename Call>
int with_files(rlim_t most, const std::string& made, Call&& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{most, most};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    try {
      call();
      ::_exit(0);
    } catch (const std::exception& error) {
      const bool named = std::string_view(error.what()).find("ulimit") != std::string_view::npos;
      static_cast<void>(named || ::write(STDERR_FILENO, error.what(), std::strlen(error.what())));
      ::_exit(::access(made.c_str(), F_OK) == 0 ? 3 : named ? 1 : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(UnfinishedCreation, nothing_stays_where_too_few_files_may_be_open) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer opens a pipe to look at a pointer, and finds fault with it where it may not";
#endif
  for (const HeapOptions& options : kinds()) {
    int result = -1;
    for (rlim_t most = 3; most < 200 && result != 0; most = next(most)) {
      result = with_files(most, path_, [&] { Heap::create(path_, options).close(); });
      ASSERT_LE(result, 1) << most << " files";
    }
    ASSERT_EQ(result, 0);
    const std::string copy = directory_ / "copy";
    const auto copying = [&] { Heap::open(path_, options).snapshot(copy); };
    for (rlim_t most = 3; most < 200 && (result = with_files(most, copy, copying)) != 0; most = next(most)) {
      ASSERT_EQ(result, 1) << most << " files";
    }
    ASSERT_EQ(result, 0);
    Heap::remove(copy);
    const auto removing = [&] { Heap::remove(path_); };
    for (rlim_t most = 3; (result = with_files(most, directory_ / "none", removing)) != 0; most = next(most)) {
      ASSERT_EQ(result, 1) << most << " files";
    }
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

}  // namespace
}  // namespace tiermap
