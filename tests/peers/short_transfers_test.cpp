// LLNL/umap: a short read (past the end of the file, a hole) leaves another page's bytes in the page, so that data of
// one file is shown in another; short writes are ignored; the file grows to a multiple of the page; the offset is
// ignored.
#include <fcntl.h>
#include <unistd.h>

#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class ShortTransfersTest : public EngineTest {
 protected:
  TemporaryDirectory directory_ = shared_memory_directory();
};
INSTANTIATE_TEST_SUITE_P(Engines, ShortTransfersTest, every_engine, engine_name);

// Every frame of the cache has held known bytes, none of them 0, before the page in question is read.
void fill_every_frame(Cache& cache) {
  const Region other = cache.map(known_store(4 * mib), read_only(page));
  EXPECT_TRUE(is_known(bytes_of(other), 0));
}

TEST_P(ShortTransfersTest, PastTheEndOfTheFileNoOtherPagesBytesShow) {
  write_known_file(directory_ / "short", page + 10);
  Cache cache(cache_options(512 * kib));
  fill_every_frame(cache);
  const Region region = cache.map(directory_ / "short", read_only(page, 20 * page));
  EXPECT_TRUE(is_known(bytes_of(region).first(page + 10), 0));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(page + 10), std::byte{0}));
  // Nor in what is mapped behind the last byte to the end of its block.
  EXPECT_TRUE(is_all({region.data() + region.size() - 1, 1}, std::byte{0}));
}

TEST_P(ShortTransfersTest, BehindTheLastByteOfTheRegionNothingShows) {
  write_known_file(directory_ / "odd", page + 10);
  Cache cache(cache_options(512 * kib));
  fill_every_frame(cache);
  const Region region = cache.map(directory_ / "odd", read_only(page));
  EXPECT_TRUE(is_all({region.data() + page + 10, 4096 - 10}, std::byte{0}));
}

TEST_P(ShortTransfersTest, InAHoleNoOtherPagesBytesShow) {
  const std::string path = directory_ / "holes";
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::pwrite(file, "x", 1, 40 * page), 1);
  ::close(file);
  Cache cache(cache_options(512 * kib));
  fill_every_frame(cache);
  const Region region = cache.map(path, read_only(page));
  EXPECT_TRUE(is_all(bytes_of(region).first(40 * page), std::byte{0}));
  EXPECT_EQ(touch(region.data() + 40 * page), std::byte{'x'});
}

TEST_P(ShortTransfersTest, AStoreThatReadsInPiecesIsReadWhole) {
  const auto store = std::make_shared<FaultyStore>(known_store(1 * mib));
  store->on_read([](const FaultyStore::Call& call) { return FaultyStore::cut(call.number % 3 == 0 ? 1 : 5000); });
  Cache cache(cache_options(512 * kib));
  const Region region = cache.map(store, read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(ShortTransfersTest, AStoreThatWritesInPiecesIsWrittenWhole) {
  const auto inner = known_store(1 * mib);
  const auto store = std::make_shared<FaultyStore>(inner);
  store->on_write([](const FaultyStore::Call& call) { return FaultyStore::cut(call.number % 3 == 0 ? 1 : 5000); });
  Cache cache(cache_options(512 * kib));
  Region region = cache.map(store, read_write(page));
  std::memset(region.data(), 7, region.size());
  region.unmap();
  EXPECT_TRUE(is_all(read_store(*inner, 0, 1 * mib), std::byte{7}));
}

TEST_P(ShortTransfersTest, TheFileKeepsItsSizeInBytes) {
  for (const std::uint64_t size : {std::uint64_t{1}, page - 1, page + 1, 3 * page + 4097}) {
    write_known_file(directory_ / "odd", size);
    Cache cache(cache_options(512 * kib));
    Region region = cache.map(directory_ / "odd", read_write(page));
    std::memset(region.data(), 7, size);
    region.unmap();
    EXPECT_EQ(std::filesystem::file_size(directory_ / "odd"), size);
    EXPECT_TRUE(is_all(read_bytes(directory_ / "odd"), std::byte{7}));
  }
}

TEST_P(ShortTransfersTest, TheOffsetCounts) {
  write_known_file(directory_ / "data", 8 * page);
  Cache cache(cache_options(512 * kib));
  RegionOptions options = read_write(page, page);
  options.offset = 5 * page;
  Region region = cache.map(directory_ / "data", options);
  EXPECT_TRUE(is_known(bytes_of(region), 5 * page));
  poke(region.data() + 1, std::byte{0});
  region.unmap();
  std::vector<std::byte> expected = known_bytes(0, 8 * page);
  expected[5 * page + 1] = std::byte{0};
  EXPECT_EQ(read_bytes(directory_ / "data"), expected);
}

}  // namespace
}  // namespace tiermap
