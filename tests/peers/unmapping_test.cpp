// LLNL/umap: unmapping one of several regions strands its pages and a later fault crashes; unmap gives back no address
// space, leaks three descriptors each time, and takes seconds for many pages.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

class UnmappingTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, UnmappingTest, every_engine, engine_name);

TEST_P(UnmappingTest, OneOfSeveralRegionsLeavesNoStrandedPages) {
  Cache cache(cache_options(512 * kib));
  for (int round = 0; round < 5; ++round) {
    Region goes = cache.map(known_store(1 * mib), read_write(4 * kib));
    const Region stays = cache.map(known_store(1 * mib), read_write(4 * kib));
    for (std::uint64_t offset = 0; offset < goes.size(); offset += 4096) {
      poke(goes.data() + offset, known_byte(offset));
    }
    goes.unmap();
    EXPECT_EQ(cache.statistics().resident_bytes, stays.statistics().resident_bytes);
    // Every page of the one that stays now needs a frame that the other had.
    EXPECT_TRUE(is_known(bytes_of(stays), 0));
  }
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
}

TEST_P(UnmappingTest, GivesBackAddressSpace) {
  Cache cache(cache_options(512 * kib));
  bool given_back = false;
  // Another thread (of the engine, of a sanitizer) may take what has just become free: not five times in a row.
  for (int attempt = 0; attempt < 5 && !given_back; ++attempt) {
    Region region = cache.map(known_store(1 * mib), read_only(4 * kib));
    void* const address = region.data();
    region.unmap();
    void* const again = ::mmap(address, 1 * mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    given_back = again == address;
    if (again != MAP_FAILED) {
      ::munmap(again, 1 * mib);
    }
  }
  EXPECT_TRUE(given_back);
}

TEST_P(UnmappingTest, LeaksNoDescriptors) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "data", 100'000);
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  const auto before = open_descriptors();
  for (int round = 0; round < 10; ++round) {
    Cache cache(cache_options(512 * kib));
    for (int mapped = 0; mapped < 3; ++mapped) {
      Region region = cache.map(directory / "data", read_write(4 * kib));
      touch(region.data() + 50'000);
      region.unmap();
    }
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(UnmappingTest, OfManyPagesIsQuick) {
  Cache cache(cache_options(160 * mib));
  Region region = cache.map(std::make_shared<MemoryStore>(64 * mib), read_only(4 * kib));
  region.prefetch({0, 64 * mib}).wait();
  for (std::uint64_t offset = 0; offset < 16 * mib; offset += 4096) {
    touch(region.data() + offset);
  }
  ASSERT_GE(region.statistics().resident_bytes, 32 * mib);
  const auto start = std::chrono::steady_clock::now();
  region.unmap();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST_P(UnmappingTest, ARegionOfATebibyteIsMappedAndUnmappedAtOnce) {
  const auto directory = shared_memory_directory();
  Cache cache(cache_options(16 * mib));
  const auto start = std::chrono::steady_clock::now();
  RegionOptions options = read_only(64 * kib, std::uint64_t{1} << 40);
  write_known_file(directory / "data", 100'000);
  Region region = cache.map(directory / "data", options);
  EXPECT_EQ(touch(region.data() + (std::uint64_t{1} << 39)), std::byte{0});
  EXPECT_EQ(touch(region.data() + 99'999), known_byte(99'999));
  region.unmap();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

}  // namespace
}  // namespace tiermap
