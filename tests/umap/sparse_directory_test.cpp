// Umap::SparseStore on directories as LLNL/umap lays them out. There, one that exists cannot be created again; a file
// size of one page makes a file a page, and a table of 2^31 descriptors for 8 TiB.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "kernel_mode/refusals.hpp"
#include "umap_fixture.hpp"
#include "umap_interface/directory_metadata.hpp"

namespace tiermap {
namespace {

constexpr std::size_t tebibyte = std::size_t{1} << 40U;

class SparseDirectoryTest : public UmapTest {
 protected:
  SparseDirectoryTest() : path_(folder_ / "store") {}

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  std::string metadata() const { return read_file(path_ + "/_metadata"); }

  std::string path_;
};

TEST_F(SparseDirectoryTest, OneOfTheOriginalsIsOpened) {
  std::filesystem::create_directory(path_);
  write_file(path_ + "/_metadata", std::to_string(4 * page) + "\n" + std::to_string(20 * page));
  for (const int number : {0, 3}) {
    const OpenFile data(path_ + "/" + std::to_string(number), number == 3 ? 4 * page : 2 * page + 800);
  }
  EXPECT_EQ(Umap::SparseStore::get_capacity(path_), 20 * page);
  Umap::SparseStore store(path_, false);
  EXPECT_EQ(store.get_directory_creation_status(), 0);
  EXPECT_EQ(store.get_current_capacity(), 20 * page);
  std::uint64_t* const region = map_store(store, 20 * page);
  EXPECT_EQ(touch(region + words_a_page + 1), words_a_page + 1);
  EXPECT_EQ(touch(region + 5 * words_a_page), 0U);  // File 1 is not there, and file 0 is cut short.
  EXPECT_EQ(touch(region + 2 * words_a_page + 99), 2 * words_a_page + 99);
  EXPECT_EQ(touch(region + 2 * words_a_page + 100), 0U);
  EXPECT_EQ(touch(region + 3 * words_a_page), 0U);
  EXPECT_EQ(touch(region + 13 * words_a_page), words_a_page);
  poke(region + 13 * words_a_page, 13);
  poke(region + 18 * words_a_page + 2, 18);
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"0", "3", "4", "_metadata"}));
  EXPECT_EQ(std::filesystem::file_size(path_ + "/4"), 4 * page);
  const std::string third = read_file(path_ + "/3");
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(third.data() + page), 13U);
  const std::string fourth = read_file(path_ + "/4");
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(fourth.data() + 2 * page + 16), 18U);
  EXPECT_EQ(::uunmap(region, 20 * page), 0);
  EXPECT_EQ(store.close_files(), 0);
}

// A file of which a part can be read: this process's memory, in which a mapping goes on behind its file's end.
TEST_F(SparseDirectoryTest, AReadErrorBehindGoodBytesIsNotTakenForZeros) {
  constexpr std::size_t all_addresses = std::size_t{1} << 47U;
  std::filesystem::create_directory(path_);
  write_file(path_ + "/_metadata", std::to_string(all_addresses) + "\n" + std::to_string(all_addresses));
  std::filesystem::create_symlink("/proc/self/mem", path_ + "/0");
  const OpenFile file(folder_ / "file", page);
  void* const memory = ::mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(memory));
  Umap::SparseStore store(path_, true);
  ASSERT_EQ(store.get_directory_creation_status(), 0);
  std::vector<char> bytes(2 * page);
  EXPECT_EQ(store.read_from_store(bytes.data(), 2 * page, offset), static_cast<ssize_t>(page));
  EXPECT_EQ(std::memcmp(bytes.data(), memory, page), 0);
  EXPECT_EQ(store.read_from_store(bytes.data(), page, offset + static_cast<off_t>(page)), -1);
  EXPECT_EQ(errno, EIO);
  ::munmap(memory, 2 * page);
}

TEST_F(SparseDirectoryTest, ANewOneIsWhatTheOriginalMakes) {
  {
    Umap::SparseStore store(10 * page, page, path_, 4 * page - 100);
    ASSERT_EQ(store.get_directory_creation_status(), 0);
    std::uint64_t* const region = map_store(store, 10 * page);
    for (std::size_t index = 0; index < 10; ++index) {
      poke(region + index * words_a_page, index + 1);
    }
    EXPECT_EQ(::uunmap(region, 10 * page), 0);
    EXPECT_EQ(store.close_files(), 0);
  }
  EXPECT_EQ(metadata(), std::to_string(4 * page) + "\n" + std::to_string(10 * page) + "\n");
  EXPECT_EQ(names(), (std::vector<std::string>{"0", "1", "2", "_metadata"}));
  for (std::size_t index = 0; index < 10; ++index) {
    const std::string data = read_file(path_ + "/" + std::to_string(index / 4));
    ASSERT_EQ(data.size(), 4 * page);
    EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(data.data() + index % 4 * page), index + 1);
  }
}

TEST_F(SparseDirectoryTest, ThatExistsIsUsedAgain) {
  for (std::uint64_t round = 0; round < 3; ++round) {
    // Other sizes, too: the files keep theirs, and the capacity only grows.
    Umap::SparseStore store((10 - round) * page, page, path_, (round + 1) * page);
    ASSERT_EQ(store.get_directory_creation_status(), 0);
    EXPECT_EQ(store.get_current_capacity(), 10 * page);
    std::uint64_t* const region = map_store(store, 8 * page);
    EXPECT_EQ(touch(region + 7 * words_a_page), round);
    poke(region + 7 * words_a_page, round + 1);
    EXPECT_EQ(::uunmap(region, 8 * page), 0);
  }
  {
    Umap::SparseStore store(30 * page, page, path_, page);
    EXPECT_EQ(store.get_current_capacity(), 30 * page);
  }
  EXPECT_EQ(metadata(), std::to_string(page) + "\n" + std::to_string(30 * page) + "\n");
  // A directory that is there and empty is a new one.
  std::filesystem::create_directory(folder_ / "empty");
  Umap::SparseStore empty(page, page, folder_ / "empty", page);
  EXPECT_EQ(empty.get_directory_creation_status(), 0);
}

TEST_F(SparseDirectoryTest, EightTebibytesInFilesOfAPage) {
  const Watchdog watchdog("8 TiB", std::chrono::seconds(60));
  set("UMAP_PAGESIZE", 4096);
  constexpr std::size_t capacity = 8 * tebibyte;
  {
    Umap::SparseStore store(capacity, 4096, path_, 4096);
    ASSERT_EQ(store.get_directory_creation_status(), 0);
    EXPECT_EQ(store.get_current_capacity(), capacity);
    // Metall maps one page less.
    void* const region = Umap::umap_ex(nullptr, capacity - 4096, for_both, UMAP_PRIVATE, -1, 0, &store);
    if (region == UMAP_FAILED && errno == ENOMEM) {
      GTEST_SKIP() << "this machine does not give 8 TiB of address space";
    }
    ASSERT_NE(region, UMAP_FAILED) << std::strerror(errno);
    auto* const words = static_cast<std::uint64_t*>(region);
    for (std::size_t index = 0; index < 2000; ++index) {
      poke(words + index * 512, index);
    }
    poke(words + 3 * tebibyte / 8, 3);
    poke(words + (capacity - 2 * 4096) / 8, 8);
    EXPECT_EQ(::umap_flush(), 0);
    EXPECT_EQ(names().size(), 4U) << "three files of data";
    EXPECT_EQ(::uunmap(region, capacity), 0);
    EXPECT_EQ(store.close_files(), 0);
  }
  std::uintmax_t blocks = 0;
  for (const std::string& name : names()) {
    struct stat status = {};
    ASSERT_EQ(::stat((path_ + "/" + name).c_str(), &status), 0);
    blocks += static_cast<std::uintmax_t>(status.st_blocks);
  }
  EXPECT_LT(blocks * 512, 32U << 20U);
  EXPECT_EQ(Umap::SparseStore::get_capacity(path_), capacity);
  Umap::SparseStore again(path_, true);
  std::uint64_t* const words = map_store(again, capacity, for_reading);
  EXPECT_EQ(touch(words + 1999 * 512), 1999U);
  EXPECT_EQ(touch(words + 3 * tebibyte / 8), 3U);
  EXPECT_EQ(touch(words + (capacity - 2 * 4096) / 8), 8U);
  EXPECT_EQ(touch(words + 5 * tebibyte / 8), 0U);
  EXPECT_EQ(::uunmap(words, capacity), 0);
}

// What the original makes of it: more files than descriptors, and room for 2^31.
TEST_F(SparseDirectoryTest, OneOfTheOriginalsWithAFileForEachPage) {
  set("UMAP_PAGESIZE", 4096);
  set("UMAP_BUFSIZE", 64);
  std::filesystem::create_directory(path_);
  write_file(path_ + "/_metadata", "4096\n" + std::to_string(8 * tebibyte) + "\n");
  constexpr std::size_t files = 600;
  for (std::size_t number = 0; number < files; ++number) {
    std::string content(4096, '\0');
    std::memcpy(content.data(), &number, sizeof number);
    write_file(path_ + "/" + std::to_string(number), content);
  }
  Umap::SparseStore store(path_, false);
  ASSERT_EQ(store.get_directory_creation_status(), 0);
  std::uint64_t* const region = map_store(store, 8 * tebibyte);
  for (std::size_t number = 0; number < files; ++number) {
    ASSERT_EQ(touch(region + number * 512), number);
    poke(region + number * 512 + 1, number);
  }
  poke(region + 7 * tebibyte / 8, 7);
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_LT(open_descriptors(), 300U);
  EXPECT_EQ(::uunmap(region, 8 * tebibyte), 0);
  EXPECT_EQ(names().size(), files + 2);
  const std::string last = read_file(path_ + "/" + std::to_string(files - 1));
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(last.data() + 8), files - 1);
}

TEST_F(SparseDirectoryTest, MoreFilesThanMayStayOpen) {
  const int status = status_of_child([&] {
    const rlimit few = {200, 200};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    constexpr std::size_t pages = 600;
    for (std::uint64_t round = 1; round <= 2; ++round) {
      Umap::SparseStore store(pages * page, page, path_, 2 * page);
      ASSERT_EQ(store.get_directory_creation_status(), 0);
      std::uint64_t* const region = map_store(store, pages * page);
      for (std::size_t index = 0; index < pages; ++index) {
        ASSERT_EQ(touch(region + index * words_a_page), round == 1 ? 0 : index + 1);
        poke(region + index * words_a_page, index + round);
      }
      EXPECT_EQ(::umap_flush(), 0);
      EXPECT_EQ(::uunmap(region, pages * page), 0);
    }
    EXPECT_EQ(names().size(), pages / 2 + 1);
    Umap::SparseStore store(path_, true);
    std::uint64_t word = 0;
    EXPECT_EQ(store.read_from_store(reinterpret_cast<char*>(&word), sizeof word, 599 * page), 8);
    EXPECT_EQ(word, 601U);
  });
  EXPECT_EQ(status, 0);
}

// What was written is not lost because it could not be opened once more, and is made durable when it can be.
TEST_F(SparseDirectoryTest, AFlushWithoutADescriptorLeftIsTriedAgain) {
  set("UMAP_PAGESIZE", 4096);
  set("UMAP_BUFSIZE", 64);
  std::filesystem::create_directory(path_);
  write_file(path_ + "/_metadata", "4096\n" + std::to_string(8 * tebibyte) + "\n");
  const int status = status_of_child([&] {
    const rlimit few = {80, 80};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    Umap::SparseStore store(path_, false);
    std::uint64_t* const region = map_store(store, 8 * tebibyte);
    std::vector<int> taken;
    const auto leave = [&](std::size_t free) {
      for (int next = ::dup(STDERR_FILENO); next >= 0; next = ::dup(STDERR_FILENO)) {
        taken.push_back(next);
      }
      for (; free > 0; --free) {
        ::close(taken.back());
        taken.pop_back();
      }
    };
    poke(region, 1);
    leave(0);
    EXPECT_EQ(::umap_flush(), -1);
    EXPECT_EQ(errno, EMFILE);
    leave(1);
    EXPECT_EQ(::umap_flush(), 0) << std::strerror(errno);
    poke(region + 1, 2);
    poke(region + 512, 3);
    leave(2);  // One is for the thread that writes several pages; the second file takes the first one's.
    EXPECT_EQ(::umap_flush(), 0) << std::strerror(errno);
    EXPECT_EQ(::uunmap(region, 8 * tebibyte), 0);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(names(), (std::vector<std::string>{"0", "1", "_metadata"}));
  const std::string first = read_file(path_ + "/0");
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(first.data()), 1U);
  EXPECT_EQ(*reinterpret_cast<const std::uint64_t*>(first.data() + 8), 2U);
}

TEST_F(SparseDirectoryTest, AFifoInThePlaceOfADataFileIsRefused) {
  const Watchdog watchdog("a FIFO among data files", std::chrono::seconds(60));
  std::filesystem::create_directory(path_);
  ASSERT_EQ(::mkfifo((path_ + "/0").c_str(), 0600), 0);
  for (const std::size_t capacity : {4 * page, 8 * tebibyte}) {  // With a table of files, and without.
    write_file(path_ + "/_metadata", std::to_string(4096) + "\n" + std::to_string(capacity) + "\n");
    for (const bool read_only : {true, false}) {
      Umap::SparseStore store(path_, read_only);
      char byte = 0;
      EXPECT_EQ(store.read_from_store(&byte, 1, 0), -1);
      EXPECT_EQ(errno, EINVAL);
    }
  }
}

class CountingSparseStore final : public Umap::SparseStore {
 public:
  using SparseStore::SparseStore;
  ssize_t read_from_store(char* buf, std::size_t nb, off_t off) override {
    ++reads;
    return SparseStore::read_from_store(buf, nb, off);
  }
  std::atomic<int> reads{0};
};

TEST_F(SparseDirectoryTest, AClassMadeOfItIsCalled) {
  CountingSparseStore store(4 * page, page, path_, page);
  std::uint64_t* const region = map_store(store, 4 * page);
  poke(region + 2 * words_a_page, 2);
  EXPECT_EQ(touch(region), 0U);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  EXPECT_EQ(store.reads.load(), 2);
  std::uint64_t word = 0;
  EXPECT_EQ(store.read_from_store(reinterpret_cast<char*>(&word), sizeof word, 2 * page), 8);
  EXPECT_EQ(word, 2U);
}

TEST_F(SparseDirectoryTest, WhatIsNoDirectoryOfItsKindIsRefused) {
  ::setenv("UMAP_LOG_LEVEL", "NONE", 1);
  Umap::SparseStore missing(folder_ / "missing", false);
  EXPECT_EQ(missing.get_directory_creation_status(), ENOENT);
  errno = 0;
  EXPECT_EQ(Umap::umap_ex(nullptr, page, for_reading, UMAP_PRIVATE, -1, 0, &missing), UMAP_FAILED);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(Umap::SparseStore::get_capacity(folder_ / "missing"), 0U);
  EXPECT_EQ(errno, ENOENT);
  const Umap::SparseStore deep(page, page, folder_ / "missing/store", page);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "missing"));
  write_file(folder_ / "file", "no directory");
  Umap::SparseStore file(page, page, folder_ / "file", page);
  EXPECT_EQ(file.get_directory_creation_status(), ENOTDIR);
  Umap::SparseStore nothing(0, page, path_, 0);
  EXPECT_EQ(nothing.get_directory_creation_status(), EINVAL);
  EXPECT_FALSE(std::filesystem::exists(path_));
  // Data whose metadata was lost is not taken for a new directory.
  std::filesystem::create_directory(path_);
  write_file(path_ + "/0", "data");
  Umap::SparseStore lost(page, page, path_, page);
  EXPECT_EQ(lost.get_directory_creation_status(), ENOTEMPTY);
  EXPECT_EQ(names(), (std::vector<std::string>{"0"}));
  for (const char* text : {"", "4096", "4096\n", "4096\n-1\n", "0\n4096\n", "4096 8192 1", "9999999999999999999999 1",
                           "4096\n8192x", "\n\n"}) {
    write_file(path_ + "/_metadata", text);
    Umap::SparseStore bad(path_, true);
    EXPECT_EQ(bad.get_directory_creation_status(), EINVAL) << text;
  }
  std::filesystem::remove(path_ + "/_metadata");
  ASSERT_EQ(::mkfifo((path_ + "/_metadata").c_str(), 0600), 0);
  Umap::SparseStore fifo(path_, true);
  EXPECT_EQ(fifo.get_directory_creation_status(), EINVAL);
}

// Files that are not listed would read as zeros.
TEST_F(SparseDirectoryTest, OneThatCannotBeListedIsRefused) {
  constexpr int no_filters = 77;
  ::setenv("UMAP_LOG_LEVEL", "NONE", 1);
  {
    Umap::SparseStore store(page, page, path_, page);
    char word[8] = {};
    EXPECT_EQ(store.write_to_store(word, sizeof word, 0), 8);
  }
  const int status = status_of_child([&] {
    if (!Refusals().refuse(SYS_getdents64, EIO).install()) {
      ::_exit(no_filters);
    }
    Umap::SparseStore store(path_, true);
    EXPECT_EQ(store.get_directory_creation_status(), EIO);
  });
  if (WIFEXITED(status) && WEXITSTATUS(status) == no_filters) {
    GTEST_SKIP() << "no seccomp filters here";
  }
  EXPECT_EQ(status, 0);
}

TEST_F(SparseDirectoryTest, ReadOnlyAndTooSmallAreTold) {
  ::setenv("UMAP_LOG_LEVEL", "NONE", 1);
  {
    const Umap::SparseStore made(4 * page, page, path_, page);
  }
  Umap::SparseStore store(path_, true);
  errno = 0;
  EXPECT_EQ(Umap::umap_ex(nullptr, page, for_both, UMAP_PRIVATE, -1, 0, &store), UMAP_FAILED);
  EXPECT_EQ(errno, EACCES);
  Umap::SparseStore small(path_, false);
  errno = 0;
  EXPECT_EQ(Umap::umap_ex(nullptr, 5 * page, for_both, UMAP_PRIVATE, -1, 0, &small), UMAP_FAILED);
  EXPECT_EQ(errno, EINVAL);
  char word[8] = {};
  EXPECT_EQ(small.write_to_store(word, sizeof word, 4 * page - 4), -1);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(small.write_to_store(word, sizeof word, -1), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SparseDirectoryTest, NowhereIsAnErrorWhetherOrNotThereIsAFile) {
  Umap::SparseStore store(4 * page, page, path_, page);
  char word[8] = {};
  EXPECT_EQ(store.write_to_store(word, sizeof word, 0), 8);
  for (const off_t offset : {off_t{0}, static_cast<off_t>(2 * page)}) {
    errno = 0;
    EXPECT_EQ(store.read_from_store(nullptr, page, offset), -1) << offset;
    EXPECT_EQ(errno, EFAULT) << offset;
    errno = 0;
    EXPECT_EQ(store.write_to_store(nullptr, page, offset), -1) << offset;
    EXPECT_EQ(errno, EFAULT) << offset;
    EXPECT_EQ(store.read_from_store(nullptr, 0, offset), 0) << offset;
  }
}

TEST_F(SparseDirectoryTest, ClosingWhileMappedKeepsTheRegionRight) {
  std::uint64_t* region = nullptr;
  {
    Umap::SparseStore store(4 * page, page, path_, page);
    region = map_store(store, 4 * page);
    poke(region, 1);
    EXPECT_EQ(store.close_files(), 0);
    errno = 0;
    EXPECT_EQ(Umap::umap_ex(nullptr, page, for_reading, UMAP_PRIVATE, -1, 0, &store), UMAP_FAILED);
    EXPECT_EQ(errno, EBADF);
  }
  poke(region + words_a_page, 2);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  Umap::SparseStore again(path_, true);
  std::uint64_t word = 0;
  EXPECT_EQ(again.read_from_store(reinterpret_cast<char*>(&word), sizeof word, page), 8);
  EXPECT_EQ(word, 2U);
}

TEST(DirectoryMetadata, HowLargeFilesAre) {
  using umap_interface::new_directory_metadata;
  const auto files = [](std::uint64_t region, std::uint64_t page_bytes, std::uint64_t file) {
    return new_directory_metadata("directory", region, page_bytes, file).file_bytes;
  };
  EXPECT_EQ(files(256ULL << 30U, 4096, 256ULL << 20U), 256ULL << 20U) << "1024 files are asked for and given";
  EXPECT_EQ(files(256ULL << 30U, 4096, 8ULL << 30U), 8ULL << 30U);
  EXPECT_EQ(files(8 * tebibyte, 4096, 4096), 128ULL << 20U);
  EXPECT_EQ(files(64 * tebibyte, 4096, 4096), 1ULL << 30U);
  EXPECT_EQ(files(1ULL << 30U, 4096, 4096), 1ULL << 20U);
  EXPECT_EQ(files(100, 4096, 1), 4096U);
  EXPECT_EQ(files(100 * 12288, 12288, 5000), 12288U);
}

}  // namespace
}  // namespace tiermap
