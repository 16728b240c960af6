// What is mapped: which bytes of the store, where, and how many.
#include <sys/mman.h>
#include <unistd.h>

#include "region/engine_fixture.hpp"
#include "region/raised_signal.hpp"
#include "region/surrounded_gap.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class MappingTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, MappingTest, every_engine, engine_name);

TEST_P(MappingTest, MapsAWholeStoreWhenNoLengthIsGiven) {
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(known_store(1 * mib), read_only(page));
  ASSERT_EQ(region.size(), 1 * mib);
  EXPECT_EQ(region.page_size_bytes(), page);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(MappingTest, MapsMoreThanMemoryHolds) {
  Cache cache(cache_options(1 * mib));
  const Region region = cache.map(known_store(8 * mib), read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  EXPECT_LE(cache.statistics().resident_bytes, 1 * mib);
}

TEST_P(MappingTest, MapsAPartFromAnOffset) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_only(page, 5 * page);
  options.offset = 4096 * 7;  // Not a multiple of the page size.
  const Region region = cache.map(known_store(1 * mib), options);
  ASSERT_EQ(region.size(), 5 * page);
  EXPECT_TRUE(is_known(bytes_of(region), 4096 * 7));
}

TEST_P(MappingTest, WithAnOffsetAndNoLengthMapsToTheStoresEnd) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_only(page);
  options.offset = 4096;
  const Region region = cache.map(known_store(page * 3 + 1000), options);
  ASSERT_EQ(region.size(), page * 3 + 1000 - 4096);
  EXPECT_TRUE(is_known(bytes_of(region), 4096));
}

TEST_P(MappingTest, WritesReachTheBytesTheyWereMeantFor) {
  const auto store = known_store(1 * mib);
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page, 3 * page + 777);
  options.offset = 8192;
  Region region = cache.map(store, options);
  poke(region.data(), std::byte{0});
  poke(region.data() + 2 * page + 5, std::byte{0});
  poke(region.data() + region.size() - 1, std::byte{0});
  region.unmap();
  std::vector<std::byte> expected = known_bytes(0, 1 * mib);
  for (const std::uint64_t changed : {std::uint64_t{0}, 2 * page + 5, 3 * page + 776}) {
    expected[8192 + changed] = std::byte{0};
  }
  EXPECT_EQ(read_store(*store, 0, 1 * mib), expected);
}

TEST_P(MappingTest, LengthNeedNotBeAMultipleOfAnything) {
  Cache cache(cache_options(4 * mib));
  for (const std::uint64_t length :
       {std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4097}, page - 1, page + 1, 7 * page + 4321}) {
    const auto store = known_store(length);
    Region region = cache.map(store, read_write(page));
    ASSERT_EQ(region.size(), length);
    EXPECT_TRUE(is_known(bytes_of(region), 0)) << length;
    poke(region.data() + length - 1, std::byte{0});
    region.unmap();
    EXPECT_EQ(store->size_bytes(), length);
    EXPECT_EQ(read_store(*store, length - 1, 1)[0], std::byte{0}) << length;
  }
}

TEST_P(MappingTest, BytesPastTheStoresEndReadAsZero) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "short", 2 * page + 100);
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(directory / "short", read_only(page, 5 * page));
  EXPECT_TRUE(is_known(bytes_of(region).first(2 * page + 100), 0));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(2 * page + 100), std::byte{0}));
  // The rest of the last block lies beyond the region and is mapped all the same.
  EXPECT_EQ(read_bytes(directory / "short").size(), 2 * page + 100);
}

TEST_P(MappingTest, WhatTheStoreHasNotIsZerosBesideOtherBytesAndAnErrorAlone) {
  constexpr std::uint64_t block = 4 * kib;
  Cache cache(cache_options(4 * mib));
  auto store = std::make_shared<FaultyStore>(known_store(4 * page));
  store->on_read([](auto call) {
    const bool absent = call.offset == page + 2 * block || call.offset == 2 * page;
    return absent ? FaultyStore::fail(ENODATA) : FaultyStore::cut(block);
  });
  const Region region = cache.map(store, read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region).subspan(0, page + 2 * block), 0));
  EXPECT_EQ(touch(region.data() + page + 2 * block), std::byte{0});
  EXPECT_EQ(touch(region.data() + page + 3 * block - 1), std::byte{0});
  EXPECT_TRUE(is_known(bytes_of(region).subspan(page + 3 * block, block), page + 3 * block));
  EXPECT_EQ(signal_raised_by([&] { touch(region.data() + 2 * page); }), SIGBUS);
  EXPECT_TRUE(is_known(bytes_of(region).subspan(3 * page, page), 3 * page));
}

TEST_P(MappingTest, AGrowingRegionExtendsItsFileToExactlyItsLength) {
  const auto directory = shared_memory_directory();
  const std::uint64_t length = 5 * page + 123;
  write_known_file(directory / "growing", page + 7);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(directory / "growing", read_write(page, length));
  poke(region.data() + length - 1, std::byte{9});
  region.sync();
  const std::vector<std::byte> content = read_bytes(directory / "growing");
  ASSERT_EQ(content.size(), length);
  EXPECT_TRUE(is_known(std::span(content).first(page + 7), 0));
  EXPECT_TRUE(is_all(std::span(content).subspan(page + 7, length - page - 8), std::byte{0}));
  EXPECT_EQ(content.back(), std::byte{9});
}

TEST_P(MappingTest, ANewFileIsMadeWithTheLengthAsked) {
  const auto directory = shared_memory_directory();
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(directory / "new", read_write(page, 100'001));
  poke(region.data() + 100'000, std::byte{1});
  region.unmap();
  EXPECT_EQ(std::filesystem::file_size(directory / "new"), 100'001U);
}

TEST_P(MappingTest, MapsAtAChosenAddress) {
  Cache cache(cache_options(4 * mib));
  const auto store = known_store(10 * page);
  const SurroundedGap gap(10 * page, page, page);
  RegionOptions options = read_only(page, 10 * page);
  options.address = gap.data();
  const Region region = cache.map(store, options);
  EXPECT_EQ(region.data(), options.address);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(MappingTest, NeverMapsOverAnotherMapping) {
  const auto taken_bytes = 8 * page;
  void* const taken = ::mmap(nullptr, taken_bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(taken, MAP_FAILED);
  std::memset(taken, 0x5A, taken_bytes + page);
  const auto start = (reinterpret_cast<std::uintptr_t>(taken) + page - 1) / page * page;
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_only(page, 4 * page);
  // Onto its middle, over its beginning, and over its end.
  for (const std::uintptr_t address : {start + 2 * page, start - 2 * page, start + 6 * page}) {
    options.address = reinterpret_cast<void*>(address);
    EXPECT_THROW(cache.map(known_store(4 * page), options), Error);
  }
  EXPECT_TRUE(is_all({static_cast<const std::byte*>(taken), taken_bytes + page}, std::byte{0x5A}));
  ::munmap(taken, taken_bytes + page);
}

TEST_P(MappingTest, NeverMapsOverAnotherRegion) {
  Cache cache(cache_options(4 * mib));
  const Region first = cache.map(known_store(8 * page), read_only(page));
  RegionOptions options = read_only(page, 4 * page);
  options.address = first.data() + 6 * page;
  EXPECT_THROW(cache.map(known_store(8 * page), options), Error);
  EXPECT_TRUE(is_known(bytes_of(first), 0));
}

TEST_P(MappingTest, TheAddressIsAMultipleOfThePageSize) {
  Cache cache(cache_options(16 * mib));
  for (const std::uint64_t size : {4 * kib, 64 * kib, 1 * mib}) {
    const Region region = cache.map(known_store(10'000), read_only(size));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(region.data()) % size, 0U) << size;
  }
}

TEST_P(MappingTest, AnEmptyStoreCanBeMappedWithALength) {
  const auto directory = shared_memory_directory();
  write_file(directory / "empty", "");
  Cache cache(cache_options(4 * mib));
  const Region region = cache.map(directory / "empty", read_only(page, page));
  EXPECT_TRUE(is_all(bytes_of(region), std::byte{0}));
}

class PageSizeTest : public ::testing::TestWithParam<std::tuple<FaultMode, std::uint64_t>> {};
INSTANTIATE_TEST_SUITE_P(Sizes, PageSizeTest,
                         ::testing::Combine(::testing::Values(FaultMode::notify, FaultMode::self_serving),
                                            ::testing::Values(4 * kib, 8 * kib, 32 * kib, 128 * kib, 512 * kib, 1 * mib,
                                                              2 * mib, 4 * mib, 8 * mib, 16 * mib, 32 * mib,
                                                              64 * mib)));

TEST_P(PageSizeTest, PagesOfThisSizeAreReadWrittenAndEvicted) {
  const auto [mode, size] = GetParam();
  // One byte a block tells where a block came from; more would take long at 64 MiB.
  const std::uint64_t length = std::max<std::uint64_t>(6 * size, 1 * mib) + 5000;
  const auto store = std::make_shared<MemoryStore>(length);
  for (std::uint64_t offset = 0; offset < length; offset += 4096) {
    const std::byte value = known_byte(offset);
    ASSERT_EQ(store->write(&value, 1, offset), 1);
  }
  CacheOptions options;
  options.budget_bytes = 5 * size + 200 * kib;
  options.fault_mode = mode;
  options.publish_statistics = false;
  Cache cache(options);
  Region region = cache.map(store, read_write(size));
  for (std::uint64_t offset = 0; offset < length; offset += 4096) {
    ASSERT_EQ(touch(region.data() + offset), known_byte(offset)) << offset;
    poke(region.data() + offset + 1, known_byte(offset + 1));
  }
  region.sync();
  for (std::uint64_t offset = 0; offset < length; offset += 4096) {
    std::byte found[3];
    ASSERT_EQ(store->read(found, 3, offset), 3);
    ASSERT_EQ(found[0], known_byte(offset)) << offset;
    ASSERT_EQ(found[1], known_byte(offset + 1)) << offset;
    ASSERT_EQ(found[2], std::byte{0}) << offset;
  }
}

}  // namespace
}  // namespace tiermap
