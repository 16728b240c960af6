// Private copies: writes never reach the store, survive eviction in a scratch file, and are gone at unmap.
#include <unistd.h>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

RegionOptions private_copy(std::uint64_t length = 0) {
  RegionOptions options = read_write(page, length);
  options.sharing = Sharing::private_copy;
  return options;
}

class PrivateCopyTest : public EngineTest {};
INSTANTIATE_TEST_SUITE_P(Engines, PrivateCopyTest, every_engine, engine_name);

TEST_P(PrivateCopyTest, WritesStayInTheRegion) {
  const auto store = known_store(20 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, private_copy());
  std::memset(region.data(), 0, region.size());
  region.sync();
  region.flush();
  region.unmap();
  EXPECT_TRUE(is_known(read_store(*store, 0, 20 * page), 0));
}

TEST_P(PrivateCopyTest, WritesThatLeaveMemoryComeBack) {
  const auto store = known_store(4 * mib);
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store, private_copy());
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    poke(region.data() + offset + 3, std::byte{0});
  }
  for (std::uint64_t offset = 0; offset < region.size(); offset += page) {
    ASSERT_EQ(touch(region.data() + offset + 2), known_byte(offset + 2));
    ASSERT_EQ(touch(region.data() + offset + 3), std::byte{0}) << offset;
    ASSERT_EQ(touch(region.data() + offset + 4), known_byte(offset + 4));
  }
  EXPECT_GT(region.statistics()[Counter::write_backs], 0U) << "nothing had to leave memory";
  EXPECT_TRUE(is_known(read_store(*store, 0, 4 * mib), 0));
}

TEST_P(PrivateCopyTest, AStoreThatCannotBeWrittenCanBeCopied) {
  const auto directory = shared_memory_directory();
  write_known_file(directory / "read-only", 5 * page);
  std::filesystem::permissions(directory / "read-only", std::filesystem::perms::owner_read);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(directory / "read-only", private_copy());
  poke(region.data() + 7, std::byte{0});
  region.sync();
  EXPECT_EQ(touch(region.data() + 7), std::byte{0});
  region.unmap();
  EXPECT_TRUE(is_known(read_bytes(directory / "read-only"), 0));
}

TEST_P(PrivateCopyTest, TwoCopiesOfOneStoreDoNotSeeEachOther) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  Region one = cache.map(store, private_copy());
  Region other = cache.map(store, private_copy());
  poke(one.data(), std::byte{0});
  EXPECT_EQ(touch(other.data()), known_byte(0));
  poke(other.data() + 1, std::byte{0});
  EXPECT_EQ(touch(one.data() + 1), known_byte(1));
}

TEST_P(PrivateCopyTest, TheNextMappingSeesTheStoreAgain) {
  const auto store = known_store(8 * page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, private_copy());
  std::memset(region.data(), 0, region.size());
  region.unmap();
  region = cache.map(store, private_copy());
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

TEST_P(PrivateCopyTest, BytesPastTheStoresEndCanBeWritten) {
  const auto store = known_store(page);
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store, private_copy(4 * page));
  poke(region.data() + 4 * page - 1, std::byte{5});
  region.sync();
  EXPECT_EQ(touch(region.data() + 4 * page - 1), std::byte{5});
  EXPECT_EQ(touch(region.data() + 4 * page - 2), std::byte{0});
  EXPECT_EQ(store->size_bytes(), page);
}

// Files of this process that are open and have no name any more, whoever made them.
std::size_t unlinked_files() {
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    found += static_cast<std::size_t>(!gone && target.find(" (deleted)") != std::string::npos);
  }
  return found;
}

TEST_P(PrivateCopyTest, TheScratchFileHasNoNameAndIsGoneAtUnmap) {
  Cache cache(cache_options(1 * mib));
  const std::size_t before = unlinked_files();
  Region region = cache.map(known_store(4 * mib), private_copy());
  std::memset(region.data(), 1, region.size());
  region.sync();
  EXPECT_GT(unlinked_files(), before);
  region.unmap();
  EXPECT_EQ(unlinked_files(), before);
}

}  // namespace
}  // namespace tiermap
