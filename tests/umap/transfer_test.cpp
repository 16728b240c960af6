// LLNL/umap: a short read leaves another page's bytes in the page; short writes are ignored; the file grows to a
// multiple of the page; the offset is ignored.
#include <sys/mman.h>

#include <memory>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

class TransferTest : public UmapTest {};

TEST_F(TransferTest, PastTheEndOfTheFileAreZerosAndNothingElses) {
  set("UMAP_BUFSIZE", 8);
  constexpr std::size_t end = 30 * page + 1000;
  const OpenFile file(folder_ / "file", end);
  std::uint64_t* const region = map_words(file, 31 * page);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t index = 0; index <= 30; ++index) {
      EXPECT_EQ(touch(region + index * words_a_page), index * words_a_page);
    }
    for (std::size_t word = end / 8; word < 31 * words_a_page; ++word) {
      ASSERT_EQ(touch(region + word), 0U) << word;
    }
  }
  EXPECT_EQ(::uunmap(region, 31 * page), 0);
}

TEST_F(TransferTest, HolesAreZeros) {
  set("UMAP_BUFSIZE", 8);
  const OpenFile full(folder_ / "full", 20 * page);
  const OpenFile holes(folder_ / "holes", 20 * page, false);
  std::uint64_t* const words = map_words(full, 20 * page);
  std::uint64_t* const zeros = map_words(holes, 20 * page);
  for (std::size_t index = 0; index < 20; ++index) {
    EXPECT_EQ(touch(words + index * words_a_page + 1), index * words_a_page + 1);
    for (std::size_t word = 0; word < words_a_page; word += 8) {
      ASSERT_EQ(touch(zeros + index * words_a_page + word), 0U);
    }
  }
  EXPECT_EQ(::uunmap(words, 20 * page), 0);
  EXPECT_EQ(::uunmap(zeros, 20 * page), 0);
}

TEST_F(TransferTest, ALengthRoundedUpToPagesDoesNotMakeTheFileGrow) {
  constexpr std::size_t end = 10008;
  const OpenFile file(folder_ / "file", end);
  std::uint64_t* const region = map_words(file, page);
  poke(region + end / 8 - 1, 44);
  poke(region + end / 8, 55);  // Behind the end: as with mmap it goes nowhere.
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_EQ(file.size(), end);
  EXPECT_EQ(file.word(end / 8 - 1), 44U);
  EXPECT_EQ(::uunmap(region, page), 0);
  EXPECT_EQ(file.size(), end);
}

TEST_F(TransferTest, NorDoesOneOfAStoreOfTheFile) {
  constexpr std::size_t end = 10008;
  const OpenFile file(folder_ / "file", end);
  const std::unique_ptr<Umap::Store> store(Umap::Store::make_store(nullptr, page, 4096, file.descriptor()));
  std::uint64_t* const region = map_store(*store, page);
  poke(region + end / 8 - 1, 44);
  poke(region + end / 8, 55);
  EXPECT_EQ(::uunmap(region, page), 0);
  EXPECT_EQ(file.size(), end);
  EXPECT_EQ(file.word(end / 8 - 1), 44U);
}

TEST_F(TransferTest, NorOneOfAFileThatWasShorterWhenAnotherRegionOfItWasMapped) {
  const OpenFile file(folder_ / "file", 1000);
  std::uint64_t* const before = map_words(file, page);
  constexpr std::size_t end = 2 * page + 10008;
  ASSERT_EQ(::ftruncate(file.descriptor(), end), 0);
  std::uint64_t* const region = map_words(file, 3 * page);
  poke(region + end / 8 - 1, 44);
  EXPECT_EQ(::uunmap(region, 3 * page), 0);
  EXPECT_EQ(file.size(), end);
  EXPECT_EQ(file.word(end / 8 - 1), 44U);
  EXPECT_EQ(::uunmap(before, page), 0);
}

TEST_F(TransferTest, WhatTheProgramAddsToTheFileCanBeWritten) {
  const OpenFile file(folder_ / "file", 10008);
  std::uint64_t* const region = map_words(file, page);
  poke(region + 1, 4);
  ASSERT_EQ(::ftruncate(file.descriptor(), page), 0);
  poke(region + 1300, 55);
  EXPECT_EQ(::umap_flush(), 0);
  EXPECT_EQ(file.word(1300), 55U);
  EXPECT_EQ(::uunmap(region, page), 0);
  EXPECT_EQ(file.size(), page);
  EXPECT_EQ(file.word(1), 4U);
}

TEST_F(TransferTest, ADescriptorThatCannotBeMappedIsNamedByItsPath) {
  ::testing::internal::CaptureStderr();
  const int directory = ::open(folder_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  errno = 0;
  EXPECT_EQ(::umap(nullptr, page, PROT_READ, UMAP_PRIVATE, directory, 0), UMAP_FAILED);
  EXPECT_EQ(errno, EISDIR);
  ::close(directory);
  const OpenFile file(folder_ / "file", page, true, O_RDONLY);
  EXPECT_EQ(::umap(nullptr, page, PROT_READ | PROT_WRITE, UMAP_PRIVATE, file.descriptor(), 0), UMAP_FAILED);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(folder_.path() + " is a directory: give the descriptor of a file"), std::string::npos) << said;
  EXPECT_NE(said.find(folder_ / "file"), std::string::npos) << said;
  EXPECT_EQ(said.find("/proc/self/fd"), std::string::npos) << said;
}

TEST_F(TransferTest, ALengthThatIsNoMultipleOfThePage) {
  const OpenFile file(folder_ / "file", 10000);
  std::uint64_t* const region = map_words(file, 10000);
  poke(region + 1249, 7);
  EXPECT_EQ(::uunmap(region, 10000), 0);
  EXPECT_EQ(file.size(), 10000U);
  EXPECT_EQ(file.word(1249), 7U);
  EXPECT_EQ(file.word(1248), 1248U);
}

TEST_F(TransferTest, AFileOfNoLengthGrowsByWhatIsWritten) {
  const OpenFile file(folder_ / "file", 0);
  std::uint64_t* const region = map_words(file, 20 * page);
  EXPECT_EQ(touch(region + 5 * words_a_page), 0U);
  poke(region + 3 * words_a_page, 3);
  EXPECT_EQ(::uunmap(region, 20 * page), 0);
  EXPECT_GE(file.size(), 3 * page + 8);
  EXPECT_LE(file.size(), 4 * page);
  EXPECT_EQ(file.word(3 * words_a_page), 3U);
}

TEST_F(TransferTest, TheOffsetIsHonoured) {
  const OpenFile file(folder_ / "file", 20 * page);
  constexpr off_t offset = 3 * 4096;
  std::uint64_t* const region = map_words(file, 4 * page, for_both, offset);
  EXPECT_EQ(touch(region + 9), static_cast<std::uint64_t>(offset) / 8 + 9);
  poke(region + 10, 1);
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  EXPECT_EQ(file.word(offset / 8 + 10), 1U);
  EXPECT_EQ(file.word(10), 10U);
}

TEST_F(TransferTest, ShortWritesAreCompleted) {
  ScriptedStore store(4 * page);
  std::uint64_t* const region = map_store(store, 4 * page);
  store.on_write = [](char*, std::size_t nb, off_t) { return nb > 4096 ? 4096 : ScriptedStore::pass; };
  for (std::size_t word = 0; word < 4 * words_a_page; ++word) {
    poke(region + word, word + 1);
  }
  EXPECT_EQ(::umap_flush(), 0);
  for (std::size_t word = 0; word < 4 * words_a_page; ++word) {
    ASSERT_EQ(store.content[word], word + 1);
  }
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
}

TEST_F(TransferTest, BuffersOfAStoreAreWholeAlignedPages) {
  set("UMAP_BUFSIZE", 8);
  ScriptedStore store(30 * page);
  std::atomic<int> wrong{0};
  const auto look = [&](char* buf, std::size_t nb, off_t off) {
    wrong += reinterpret_cast<std::uintptr_t>(buf) % 4096 != 0 || nb != page || off % static_cast<off_t>(page) != 0;
    return ScriptedStore::pass;
  };
  store.on_read = look;
  store.on_write = look;
  std::uint64_t* const region = map_store(store, 30 * page);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t index = 0; index < 30; ++index) {
      poke(region + index * words_a_page + 1700, 1);  // One block of four.
    }
  }
  EXPECT_EQ(::uunmap(region, 30 * page), 0);
  EXPECT_GE(store.writes.load(), 30);
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(TransferTest, AStoreMayPutTheRestOfThePageAndReadALittleBehindIt) {
  ScriptedStore store(2 * page);
  store.on_read = [](char* buf, std::size_t nb, off_t off) -> ssize_t {
    if (off == 0) {  // Nothing of it is to be seen in the other page.
      std::memset(buf, 9, nb);
      return static_cast<ssize_t>(nb);
    }
    std::memset(buf, 1, 100);
    std::memset(buf + 100, 0xff, 200);
    std::memset(buf + nb, 7, 4095);
    return 100;
  };
  std::uint64_t* const region = map_store(store, 2 * page, for_reading);
  const auto* bytes = reinterpret_cast<const unsigned char*>(region);
  EXPECT_EQ(bytes[page - 1], 9);
  EXPECT_EQ(bytes[page + 99], 1);
  EXPECT_EQ(bytes[page + 299], 0xff);
  EXPECT_EQ(bytes[page + 300], 0);
  EXPECT_EQ(bytes[2 * page - 1], 0);
  EXPECT_EQ(::uunmap(region, 2 * page), 0);
}

TEST_F(TransferTest, PagesThatAreNoPowerOfTwo) {
  set("UMAP_PAGESIZE", 12288);
  const OpenFile file(folder_ / "file", 100 * 12288);
  EXPECT_EQ(::umapcfg_get_umap_page_size(), 12288U);
  std::uint64_t* const region = map_words(file, 100 * 12288);
  umap_prefetch_item item{reinterpret_cast<char*>(region) + 50 * 12288 + 3};
  ::umap_prefetch(1, &item);
  for (std::size_t word = 0; word < 100 * 1536; word += 511) {
    EXPECT_EQ(touch(region + word), word);
    poke(region + word, ~word);
  }
  EXPECT_EQ(::uunmap(region, 100 * 12288), 0);
  EXPECT_EQ(file.word(511), ~std::uint64_t{511});
}

TEST_F(TransferTest, SystemCallsTakeBuffersInARegion) {
  skip_without_kernel_faults();
  const OpenFile file(folder_ / "file", 20 * page);
  const OpenFile copy(folder_ / "copy", 0);
  std::uint64_t* const region = map_words(file, 20 * page);
  EXPECT_EQ(::pwrite(copy.descriptor(), region, 20 * page, 0), static_cast<ssize_t>(20 * page));
  EXPECT_EQ(copy.word(19 * words_a_page + 1), 19 * words_a_page + 1);
  EXPECT_EQ(::uunmap(region, 20 * page), 0);
}

}  // namespace
}  // namespace tiermap
