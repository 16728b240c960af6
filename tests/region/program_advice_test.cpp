// What a program may do to the mappings of a region behind our back: advice and locks for parts of pages, and asking
// the kernel to merge equal pages.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

class ProgramAdvice : public EngineTest {
 protected:
  static constexpr std::uint64_t page = 64 * kib;
  static constexpr std::uint64_t bytes = 4 * mib;

  /// A word of each 4 KiB is written, found again, and in the store after sync().
  static void write_and_find(Region& region, Store& store) {
    for (std::uint64_t offset = 0; offset < bytes; offset += 4096) {
      std::memcpy(region.data() + offset, &offset, sizeof offset);
    }
    for (std::uint64_t offset = 0; offset < bytes; offset += 4096) {
      ASSERT_EQ(std::memcmp(region.data() + offset, &offset, sizeof offset), 0) << offset;
    }
    region.sync();
    for (std::uint64_t offset = 0; offset < bytes; offset += 4096) {
      std::uint64_t stored = 0;
      ASSERT_EQ(store.read(&stored, sizeof stored, offset), static_cast<std::int64_t>(sizeof stored));
      ASSERT_EQ(stored, offset);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, ProgramAdvice, every_engine, engine_name);

// Two mappings in one page: the kernel moves and copies within one only.
TEST_P(ProgramAdvice, ForAPartOfAPageChangesNoByte) {
  Cache cache(cache_options(1 * mib));
  const auto store = std::make_shared<MemoryStore>(bytes);
  Region region = cache.map(store, read_write(page));
  for (const int advice : {MADV_RANDOM, MADV_SEQUENTIAL, MADV_DONTDUMP}) {
    ASSERT_EQ(::madvise(region.data() + page + 4096, 4096, advice), 0);
    ASSERT_EQ(::madvise(region.data() + 9 * page - 4096, 8192, advice), 0);
    write_and_find(region, *store);
  }
}

TEST_P(ProgramAdvice, ALockedPartOfAPageChangesNoByte) {
  Cache cache(cache_options(1 * mib));
  const auto store = std::make_shared<MemoryStore>(bytes);
  Region region = cache.map(store, read_write(page));
  // The lock itself cannot be had of what is not in memory; the mark that it leaves is what is in the way.
  [[maybe_unused]] const int ignored = ::mlock2(region.data() + page + 4096, 4096, MLOCK_ONFAULT);
  write_and_find(region, *store);
}

TEST_P(ProgramAdvice, ForTheWholeRegionAllowsItToGrow) {
  Cache cache(cache_options(1 * mib));
  const TemporaryDirectory directory = shared_memory_directory();
  const std::string path = directory / "data";
  std::ofstream(path) << std::string(1'000'000, ' ');
  const std::shared_ptr<Store> store = open_store(path, OpenMode::read_write);
  RegionOptions options = read_write(page, 1'000'000);
  options.reserve_bytes = 8 * mib;
  Region region = cache.map(store, options);
  ASSERT_EQ(::madvise(region.data(), 1'000'000, MADV_DONTDUMP), 0);
  poke(region.data() + 999'999, std::byte{5});
  region.resize(bytes);
  EXPECT_EQ(touch(region.data() + 999'999), std::byte{5});
  write_and_find(region, *store);
}

/// The flags of the mapping at an address, as /proc/self/smaps spells them.
std::string flags_of_mapping(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long first = 0;
    unsigned long end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &first, &end) == 2) {
      inside = first <= wanted && wanted < end;
    } else if (inside && line.starts_with("VmFlags:")) {
      return line + " ";
    }
  }
  return "";
}

#ifndef PR_SET_MEMORY_MERGE
#define PR_SET_MEMORY_MERGE 67
#endif

// In a process of its own: there is no way back from it for what is mapped already.
TEST_P(ProgramAdvice, ToMergeAllItsMemoryLeavesRegionsOut) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_MEMORY_MERGE, 1, 0, 0, 0) != 0) {
      ::_exit(2);
    }
    int code = 1;
    {
      Cache cache(cache_options(1 * mib));
      const Region region = cache.map(std::make_shared<MemoryStore>(bytes), read_write(page));
      const std::string flags = flags_of_mapping(region.data());
      code = flags.empty() || flags.find(" mg ") != std::string::npos ? 1 : 0;
    }
    ::_exit(code);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) {
    GTEST_SKIP() << "the kernel has no PR_SET_MEMORY_MERGE (Linux since 6.4, with KSM), or does not permit it";
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace tiermap
