// The threads and userfaultfds of a cache: as many as its options say, and none once it has gone.
#include <filesystem>
#include <string>
#include <system_error>

#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

/// Threads of this process with that name, or with a name that begins so.
std::uint64_t threads_named(const std::string& beginning) {
  std::uint64_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);  // Empty of one that ends just now.
    count += name.starts_with(beginning) ? 1U : 0U;
  }
  return count;
}

std::uint64_t open_userfaultfds() {
  std::uint64_t count = 0;
  for (const auto& descriptor : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::filesystem::path target = std::filesystem::read_symlink(descriptor.path(), gone);
    count += target == "anon_inode:[userfaultfd]" ? 1U : 0U;
  }
  return count;
}

class ThreadsTest : public EngineTest {
 protected:
  static CacheOptions with_machinery(std::uint32_t fillers, std::uint32_t evictors, std::uint32_t managers,
                                     std::uint32_t shards) {
    CacheOptions options = cache_options(4 * mib);
    options.fillers = fillers;
    options.evictors = evictors;
    options.managers = managers;
    options.shards = shards;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Engines, ThreadsTest, every_engine, engine_name);

TEST_P(ThreadsTest, AreAsManyAsTheOptionsSayAndGoWithTheCache) {
  // A thread that has been waited for can be in the list for a moment still.
  const auto none_left = [] { return threads_named("tiermap-") + threads_named("tm-") == 0; };
  ASSERT_TRUE(comes_to_be(none_left)) << "of a cache before this";
  ASSERT_EQ(open_userfaultfds(), 0U);
  const bool notify = GetParam().fault_mode == FaultMode::notify;
  struct {
    std::uint32_t fillers, evictors, managers, shards;
  } const settings[] = {{1, 1, 1, 1}, {5, 3, 2, 4}};
  for (const auto& [fillers, evictors, managers, shards] : settings) {
    {
      Cache cache(with_machinery(fillers, evictors, managers, shards));
      EXPECT_EQ(threads_named("tiermap-fill"), fillers);
      EXPECT_EQ(threads_named("tiermap-evict"), evictors);
      EXPECT_EQ(threads_named("tiermap-manage"), notify ? managers : 0);
      EXPECT_EQ(open_userfaultfds(), shards);
      const Region region = cache.map(known_store(1 * mib), read_only(16 * kib));
      EXPECT_TRUE(is_known(bytes_of(region), 0));
      EXPECT_EQ(threads_named("tiermap-"), fillers + evictors + (notify ? managers : 0)) << "more came with a region";
      EXPECT_EQ(open_userfaultfds(), shards);
    }
    EXPECT_TRUE(comes_to_be(none_left));
    EXPECT_EQ(open_userfaultfds(), 0U);
  }
}

TEST_P(ThreadsTest, RegionsOfEveryShardAreServed) {
  Cache cache(with_machinery(2, 1, 2, 3));
  std::vector<Region> regions;
  for (int number = 0; number < 7; ++number) {
    regions.push_back(cache.map(known_store(2 * mib), read_only(16 * kib)));
  }
  for (const Region& region : regions) {
    EXPECT_TRUE(is_known(bytes_of(region), 0));
  }
}

TEST_P(ThreadsTest, OneMoreFollowsTheMachinesMemoryIfAsked) {
  CacheOptions options = cache_options(4 * mib);
  options.adapt_budget = true;
  {
    const Cache cache(options);
    EXPECT_EQ(threads_named("tm-adapt"), 1U);
  }
  EXPECT_TRUE(comes_to_be([] { return threads_named("tm-") == 0; }));
  const Cache cache(cache_options(4 * mib));
  EXPECT_EQ(threads_named("tm-adapt"), 0U);
}

}  // namespace
}  // namespace tiermap
