// Regions with pages of 2 MiB and more are backed by huge pages, where the kernel has them.
#include <sys/mman.h>

#include <cstdio>
#include <sstream>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t huge_page = 2 * mib;

/// What of [start, start + bytes) is backed by huge pages, by /proc/self/smaps.
std::uint64_t huge_bytes(const void* start, std::uint64_t bytes) {
  const auto first = reinterpret_cast<std::uint64_t>(start);
  std::ifstream smaps("/proc/self/smaps");
  std::uint64_t total = 0;
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    std::uint64_t kibibytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2) {
      inside = from < first + bytes && to > first;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kibibytes) == 1) {
      total += kibibytes * kib;
    }
  }
  return total;
}

/// Whether the kernel gives this process so many huge pages at this moment: it is asked for them, and looked at what
/// came.
bool has_huge_pages(std::uint64_t bytes) {
  void* const reserved = ::mmap(nullptr, bytes + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) {
    return false;
  }
  const auto aligned = (reinterpret_cast<std::uintptr_t>(reserved) + huge_page - 1) / huge_page * huge_page;
  auto* const start = reinterpret_cast<std::byte*>(aligned);
  ::madvise(start, bytes, MADV_HUGEPAGE);
  for (std::uint64_t offset = 0; offset < bytes; offset += huge_page) {
    poke(start + offset, std::byte{1});
  }
  const bool huge = huge_bytes(start, bytes) == bytes;
  ::munmap(reserved, bytes + huge_page);
  return huge;
}

bool switched_off() {
  std::string choices;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), choices);
  return choices.empty() || choices.find("[never]") != std::string::npos;
}

class HugePagesTest : public EngineTest {
 protected:
  static constexpr std::uint64_t length = 16 * mib;

  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (GetParam().placement == Placement::copy || !kernel_moves()) {
      GTEST_SKIP() << "the kernel copies in 4 KiB at a time: only pages that are moved in are huge";
    }
    if (switched_off()) {
      GTEST_SKIP() << "/sys/kernel/mm/transparent_hugepage/enabled is never";
    }
    if (!has_huge_pages(2 * length)) {
      GTEST_SKIP() << "the kernel has no huge pages free, or gives this process none";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, HugePagesTest, every_engine, engine_name);

TEST_P(HugePagesTest, BackPagesFromTwoMebibytesOn) {
  for (const std::uint64_t size : {huge_page, 2 * huge_page}) {
    Cache cache(cache_options(2 * length));
    const Region read = cache.map(known_store(length), read_only(size));
    EXPECT_TRUE(is_known(bytes_of(read), 0));
    EXPECT_EQ(huge_bytes(read.data(), length), length) << size;
  }
  Cache cache(cache_options(2 * length));
  Region written = cache.map(known_store(length), read_write(huge_page));
  for (std::uint64_t offset = 0; offset < length; offset += huge_page) {
    poke(written.data() + offset, std::byte{0});
  }
  EXPECT_EQ(huge_bytes(written.data(), length), length);
  written.sync();
  EXPECT_EQ(huge_bytes(written.data(), length), length) << "writing back broke them up";
}

TEST_P(HugePagesTest, BackNoSmallerPages) {
  Cache cache(cache_options(2 * length));
  const Region region = cache.map(known_store(length), read_only(1 * mib));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(huge_bytes(region.data(), length), 0U);
}

}  // namespace
}  // namespace tiermap
