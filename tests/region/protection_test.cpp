// Writing to a read-only region raises SIGSEGV as with mmap, and never reaches the store.
#include <unistd.h>

#include <thread>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class ProtectionTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, ProtectionTest, every_engine, engine_name);

TEST_P(ProtectionTest, AWriteToAnAbsentPageRaisesSigsegvAtItsAddress) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(store, read_only(page));
  std::byte* const target = region.data() + 3 * page + 5;
  EXPECT_EQ(signal_raised_by([&] { poke(target, std::byte{0}); }), SIGSEGV);
  EXPECT_EQ(signal_address, target);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, AWriteToAResidentPageRaisesSigsegv) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(store, read_only(page));
  ASSERT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(signal_raised_by([&] { poke(region.data() + 5, std::byte{0}); }), SIGSEGV);
  EXPECT_EQ(signal_raised_by([&] { poke(region.data() + 5, std::byte{0}); }), SIGSEGV);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, TheRegionStillPagesAfterwards) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, read_only(page));
  ASSERT_EQ(signal_raised_by([&] { poke(region.data(), std::byte{0}); }), SIGSEGV);
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(is_known(bytes_of(region), 0));
  }
  EXPECT_LE(cache.statistics().resident_bytes, 1 * mib);
  region.unmap();
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  EXPECT_TRUE(is_known(read_store(*store, 0, 4 * mib), 0));
}

TEST_P(ProtectionTest, ManyThreadsReadWhileOneTriesToWrite) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(store, read_only(page));
  std::vector<std::thread> readers;
  std::vector<int> right(3, 0);
  for (std::size_t reader = 0; reader < 3; ++reader) {
    readers.emplace_back([&, reader] { right[reader] = is_known(bytes_of(region), 0) ? 1 : 0; });
  }
  int raised = 0;
  for (std::uint64_t offset = 0; offset < region.size(); offset += 5 * page) {
    raised += signal_raised_by([&] { poke(region.data() + offset, std::byte{0}); }) == SIGSEGV ? 1 : 0;
  }
  for (std::thread& reader : readers) {
    reader.join();
  }
  EXPECT_EQ(raised, 52);
  EXPECT_EQ(right, std::vector<int>(3, 1));
  EXPECT_TRUE(is_known(read_store(*store, 0, 4 * mib), 0));
}

TEST_P(ProtectionTest, ASystemCallThatWouldWriteFailsWithEfault) {
  const auto directory = shared_memory_directory();
  write_file(directory / "source", std::string(100, 'x'));
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(4 * page), read_only(page));
  FILE* const source = std::fopen((directory / "source").c_str(), "r");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(::pread(::fileno(source), region.data() + page, 100, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  std::fclose(source);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ProtectionTest, ReadingNeverMakesAReadOnlyRegionDirty) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(4 * mib), read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_EQ(region.statistics().dirty_bytes, 0U);
  EXPECT_EQ(region.statistics()[Counter::write_backs], 0U);
}

}  // namespace
}  // namespace tiermap
