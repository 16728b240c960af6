// LLNL/umap: unmapping one of several regions strands its pages; address space and descriptors are not given back; a
// thousand regions are too many.
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <fstream>

#include "umap_fixture.hpp"

namespace tiermap {
namespace {

class UnmappingTest : public UmapTest {};

TEST_F(UnmappingTest, OneOfSeveralRegionsLeavesTheOthersRight) {
  const OpenFile file(folder_ / "file", 60 * page);
  std::uint64_t* regions[3];
  for (std::uint64_t*& region : regions) {
    region = map_words(file, 60 * page);
  }
  for (std::size_t index = 0; index < 60; ++index) {
    EXPECT_EQ(touch(regions[1] + index * words_a_page), index * words_a_page);
  }
  EXPECT_EQ(::uunmap(regions[1], 60 * page), 0);
  for (std::size_t index = 0; index < 60; ++index) {
    EXPECT_EQ(touch(regions[0] + index * words_a_page), index * words_a_page);
    EXPECT_EQ(touch(regions[2] + index * words_a_page), index * words_a_page);
  }
  EXPECT_EQ(signal_raised_by([&] { touch(regions[1]); }), SIGSEGV);
  EXPECT_EQ(::uunmap(regions[0], 60 * page), 0);
  EXPECT_EQ(::uunmap(regions[2], 60 * page), 0);
}

std::size_t address_space_in_use() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

TEST_F(UnmappingTest, GivesBackAddressSpaceAndDescriptors) {
  constexpr std::size_t bytes = std::size_t{1} << 30U;
  const OpenFile file(folder_ / "file", bytes, false);
  std::size_t before = 0;
  std::size_t descriptors = 0;
  for (int round = 0; round < 40; ++round) {
    std::uint64_t* const region = map_words(file, bytes);
    touch(region);
    EXPECT_EQ(::uunmap(region, bytes), 0);
    if (round == 0) {
      before = address_space_in_use();
      descriptors = open_descriptors();
    }
  }
  EXPECT_LT(address_space_in_use(), before + 10 * bytes);
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_F(UnmappingTest, APageMoreThanWasMappedIsThatRegion) {
  const OpenFile file(folder_ / "file", 4 * page);
  std::uint64_t* const region = map_words(file, 4 * page);
  poke(region, 5);
  EXPECT_EQ(::uunmap(region, 5 * page), 0);
  EXPECT_EQ(file.word(0), 5U);
  EXPECT_EQ(::uunmap(region, 4 * page), -1);
}

TEST_F(UnmappingTest, WhereNoRegionBeginsIsAnError) {
  const OpenFile file(folder_ / "file", 4 * page);
  std::uint64_t* const region = map_words(file, 4 * page);
  for (void* address : {static_cast<void*>(region + words_a_page), static_cast<void*>(nullptr)}) {
    errno = 0;
    EXPECT_EQ(::uunmap(address, page), -1);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(::uunmap(region, 4 * page), 0);
  errno = 0;
  EXPECT_EQ(::uunmap(region, 4 * page), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(UnmappingTest, MoreThanAThousandRegions) {
  const int status = status_of_child([&] {
    // With no more descriptors than a program usually has.
    rlimit limit = {};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit usual = {std::min<rlim_t>(1024, limit.rlim_max), std::min<rlim_t>(1024, limit.rlim_max)};
    constexpr std::size_t count = 1500;
    const OpenFile file(folder_ / "file", page);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &usual), 0);
    std::vector<std::uint64_t*> regions;
    for (std::size_t index = 0; index < count; ++index) {
      void* const region = ::umap(nullptr, page, for_reading, UMAP_PRIVATE, file.descriptor(), 0);
      ASSERT_NE(region, UMAP_FAILED) << index << ": " << std::strerror(errno);
      regions.push_back(static_cast<std::uint64_t*>(region));
    }
    for (std::uint64_t* const region : regions) {
      ASSERT_EQ(touch(region + 77), 77U);
    }
    for (std::uint64_t* const region : regions) {
      ASSERT_EQ(::uunmap(region, page), 0);
    }
  });
  EXPECT_EQ(status, 0);
}

TEST_F(UnmappingTest, ARegionOfManyPagesThatAreDirty) {
  set("UMAP_PAGESIZE", 4096);
  set("UMAP_BUFSIZE", 20000);
  constexpr std::size_t pages = 10000;
  const OpenFile file(folder_ / "file", pages * 4096, false);
  std::uint64_t* const region = map_words(file, pages * 4096);
  for (std::size_t index = 0; index < pages; ++index) {
    poke(region + index * 512, index);
  }
  EXPECT_EQ(::uunmap(region, pages * 4096), 0);
  for (std::size_t index = 0; index < pages; index += 37) {
    EXPECT_EQ(file.word(index * 512), index);
  }
}

}  // namespace
}  // namespace tiermap
