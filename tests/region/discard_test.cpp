// discard(): dirty pages are dropped unwritten, and the store's bytes are back.
#include "region/engine_fixture.hpp"
#include "store/faulty_store.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 16 * kib;

class DiscardTest : public EngineTest {
 protected:
  std::shared_ptr<FaultyStore> store_ = std::make_shared<FaultyStore>(known_store(64 * page + 99));
};
INSTANTIATE_TEST_SUITE_P(Engines, DiscardTest, every_engine, engine_name);

TEST_P(DiscardTest, BringsBackTheStoresBytes) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store_, read_write(page));
  std::memset(region.data(), 0, region.size());
  region.discard({0, region.size()});
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  region.sync();
  EXPECT_EQ(store_->writes(), 0U);
}

TEST_P(DiscardTest, FreesTheMemory) {
  Cache cache(cache_options(4 * mib));
  RegionOptions options = read_write(page);
  options.advice = Advice::random;  // What is still being read ahead may come after the call.
  Region region = cache.map(store_, options);
  std::memset(region.data(), 0, region.size());
  region.discard({0, region.size()});
  EXPECT_EQ(cache.statistics().resident_bytes, 0U);
  EXPECT_EQ(cache.statistics().mapped_bytes, 0U);
  EXPECT_EQ(cache.statistics().dirty_bytes, 0U);
}

TEST_P(DiscardTest, OfARangeKeepsTheRest) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store_, read_write(page));
  std::memset(region.data(), 0, region.size());
  region.discard({5 * page + 1, page});
  EXPECT_TRUE(is_all(bytes_of(region).first(5 * page), std::byte{0}));
  EXPECT_TRUE(is_known(bytes_of(region).subspan(5 * page, 2 * page), 5 * page));
  EXPECT_TRUE(is_all(bytes_of(region).subspan(7 * page), std::byte{0}));
}

TEST_P(DiscardTest, SeesWhatSomebodyElseWroteToTheStore) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store_, read_only(page));
  EXPECT_TRUE(is_known(bytes_of(region), 0));
  const std::byte other{0};
  ASSERT_EQ(store_->write(&other, 1, 3 * page), 1);
  EXPECT_EQ(touch(region.data() + 3 * page), known_byte(3 * page));
  region.discard({3 * page, 1});
  EXPECT_EQ(touch(region.data() + 3 * page), other);
}

TEST_P(DiscardTest, PinnedPagesAreReadAgainInPlace) {
  Cache cache(cache_options(1 * mib));
  Region region = cache.map(store_, read_write(page));
  region.pin({0, 4 * page});
  std::memset(region.data(), 0, 4 * page);
  region.discard({0, 4 * page});
  const std::uint64_t reads = store_->reads();
  EXPECT_TRUE(is_known(bytes_of(region).first(4 * page), 0));
  EXPECT_EQ(store_->reads(), reads) << "a pinned page was not in memory";
  region.unpin({0, 4 * page});
}

TEST_P(DiscardTest, NothingDirtyIsNoMatter) {
  Cache cache(cache_options(4 * mib));
  Region region = cache.map(store_, read_only(page));
  region.discard({0, region.size()});
  region.discard({0, 0});
  EXPECT_THROW(region.discard({0, region.size() + 1}), OptionError);
  EXPECT_TRUE(is_known(bytes_of(region), 0));
}

}  // namespace
}  // namespace tiermap
