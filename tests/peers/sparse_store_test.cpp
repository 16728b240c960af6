// LLNL/umap's SparseStore: creating one in a directory that exists fails; given the page size as file size it makes one
// file a page (18,161 for a small graph), and a table of 2^31 descriptors for 8 TiB.
#include <algorithm>
#include <filesystem>

#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

class SparsePeersTest : public EngineTest {
 protected:
  TemporaryDirectory directory_ = shared_memory_directory();
};
INSTANTIATE_TEST_SUITE_P(Engines, SparsePeersTest, every_engine, engine_name);

std::size_t files_under(const std::string& path) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    files += static_cast<std::size_t>(entry.is_regular_file());
  }
  return files;
}

TEST_P(SparsePeersTest, IsMadeInADirectoryThatExists) {
  std::filesystem::create_directory(directory_ / "here");
  Cache cache(cache_options(2 * mib));
  Region region = cache.map("sparse://" + (directory_ / "here"), read_write(16 * kib, 1 * mib));
  poke(region.data() + 500'000, std::byte{1});
  region.unmap();
  region = cache.map("sparse://" + (directory_ / "here"), read_only(16 * kib));
  EXPECT_EQ(touch(region.data() + 500'000), std::byte{1});
}

TEST_P(SparsePeersTest, MakesFewFilesHoweverSmallThePages) {
  Cache cache(cache_options(2 * mib));
  Region region = cache.map("sparse://" + (directory_ / "data"), read_write(4 * kib, 70'000'000));
  for (std::uint64_t offset = 0; offset < region.size(); offset += 100'000) {
    poke(region.data() + offset, std::byte{1});
  }
  region.unmap();
  EXPECT_LE(files_under(directory_ / "data"), 4U);
}

TEST_P(SparsePeersTest, OpensEightTebibytesAtNoCost) {
  Cache cache(cache_options(2 * mib));
  const std::uint64_t bytes = std::uint64_t{8} << 40;
  const auto resident_kib = [] {
    std::ifstream status("/proc/self/statm");
    std::uint64_t pages = 0;
    std::uint64_t resident = 0;
    status >> pages >> resident;
    return resident * 4;
  };
  const std::uint64_t before = resident_kib();
  Region region = cache.map("sparse://" + (directory_ / "huge") + "?segment=4GiB", read_write(64 * kib, bytes));
  poke(region.data() + bytes - 1, std::byte{1});
  poke(region.data() + bytes / 2, std::byte{2});
  region.unmap();
  region = cache.map("sparse://" + (directory_ / "huge"), read_only(64 * kib));
  EXPECT_EQ(touch(region.data() + bytes - 1), std::byte{1});
  EXPECT_EQ(touch(region.data() + bytes / 2), std::byte{2});
  EXPECT_EQ(touch(region.data() + bytes / 4), std::byte{0});
  EXPECT_LE(resident_kib(), before + 32 * kib);
  EXPECT_LE(files_under(directory_ / "huge"), 8U);
}

}  // namespace
}  // namespace tiermap
