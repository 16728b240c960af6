// The kernel's page tables of what is given back go with it, and nothing else does.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "region/engine_fixture.hpp"
#include "store/temporary_directory.hpp"

namespace tiermap {
namespace {

/// What the kernel says of this process: the bytes behind such a name.
std::uint64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name, 0) == 0) {
      return std::stoull(line.substr(name.size())) * kib;
    }
  }
  return 0;
}

std::uint64_t page_table_bytes() {
  return status_bytes("VmPTE:");
}

class PageTablesTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, PageTablesTest, every_engine, engine_name);

TEST_P(PageTablesTest, GoWithTheMemoryThatIsGivenBack) {
  void* const probe = ::mmap(nullptr, 4 * mib, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(probe, MAP_FAILED);
  ::madvise(probe, 4 * mib, MADV_NOHUGEPAGE);
  std::memset(probe, 1, 4 * mib);
  const std::uint64_t with_probe = page_table_bytes();
  ::madvise(probe, 4 * mib, MADV_DONTNEED);
  const bool kernel_frees_them = page_table_bytes() < with_probe;
  ::munmap(probe, 4 * mib);
  if (!kernel_frees_them) {
    GTEST_SKIP() << "this kernel keeps the page tables of memory that is given back; Linux 6.14 and later free them";
  }
  constexpr std::uint64_t size = 512 * mib;
  Cache cache(cache_options(2 * mib));
  const TemporaryDirectory directory;
  const std::string path = directory / "holes";  // Not a store in memory: that has page tables of its own.
  std::ofstream(path).close();
  std::filesystem::resize_file(path, size);
  Region region = cache.map(path, read_only(64 * kib));
  const std::uint64_t before = page_table_bytes();
  for (std::uint64_t offset = 0; offset < size; offset += mib) {
    touch(region.data() + offset);
  }
  const std::uint64_t touched = page_table_bytes();
  EXPECT_GE(touched, before + 900 * kib);  // A page of 4 KiB for each 2 MiB.
  region.advise(Advice::dont_need, {mib, size - 2 * mib});
  EXPECT_LE(page_table_bytes(), before + 300 * kib);
  EXPECT_EQ(touch(region.data() + size / 2), std::byte{0});
}

// Of what was never touched nothing is looked at: neither the time nor the memory for it is taken, wherever the region
// begins in a page table of the kernel's.
TEST_P(PageTablesTest, OfAFewTouchedPagesCostNoMoreInALargeRegion) {
  constexpr std::uint64_t size = 65536 * mib;
  const TemporaryDirectory directory;
  const std::string path = directory / "holes";
  std::ofstream(path).close();
  std::filesystem::resize_file(path, size);
  Cache cache(cache_options(2 * mib));
  void* const place = ::mmap(nullptr, size + 4 * mib, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(place, MAP_FAILED);
  RegionOptions options = read_only(16 * kib);
  const auto from = reinterpret_cast<std::uintptr_t>(place);
  options.address = reinterpret_cast<void*>((from + 2 * mib - 1) / (2 * mib) * (2 * mib) + mib);
  options.replacement = Replacement::reservation;
  Region region = cache.map(path, options);
  touch(region.data());
  const std::uint64_t before = status_bytes("VmRSS:");
  region.advise(Advice::dont_need);
  region.advise(Advice::dont_need);
  // A word for each page of it is 32 MiB; a sanitizer has memory of its own beside it.
  EXPECT_LE(status_bytes("VmRSS:"), before + 16 * mib);
  region = Region();
  ::munmap(place, size + 4 * mib);
}

// A page that is written while its neighbours are given back is not given back with them.
TEST_P(PageTablesTest, NothingIsLostToWritersMeanwhile) {
  constexpr std::uint64_t page = 16 * kib;
  constexpr std::uint64_t pages = 4 * mib / page;
  Cache cache(cache_options(8 * mib));
  Region region = cache.map("memory:4MiB", read_write(page));
  std::atomic<bool> stop = false;
  std::thread dropper([&] {
    while (!stop.load()) {
      region.advise(Advice::dont_need);
    }
  });
  std::vector<std::uint64_t> expected(pages, 0);
  auto* const words = reinterpret_cast<volatile std::uint64_t*>(region.data());
  bool lost = false;
  for (std::uint64_t round = 1; round <= 4000; ++round) {
    const std::uint64_t which = round * 7919 % pages;
    lost = lost || words[which * page / sizeof(std::uint64_t)] != expected[which];
    words[which * page / sizeof(std::uint64_t)] = round;
    expected[which] = round;
  }
  stop = true;
  dropper.join();
  EXPECT_FALSE(lost);
  for (std::uint64_t which = 0; which < pages; ++which) {
    EXPECT_EQ(words[which * page / sizeof(std::uint64_t)], expected[which]);
  }
}

}  // namespace
}  // namespace tiermap
