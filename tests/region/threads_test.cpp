// The threads and userfaultfds of a cache: as many as its options say, and none once it has gone.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

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

/// How often the thread that was started first, second and so on of those with that name has gone to sleep.
std::vector<std::uint64_t> sleeps_of(const std::string& name) {
  std::map<int, std::uint64_t> sleeps;  // Threads are numbered in the order of their start.
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    bool named = false;
    for (std::string line; std::getline(status, line);) {
      named = named || line == "Name:\t" + name;
      const std::string_view label = "voluntary_ctxt_switches:";
      if (named && line.starts_with(label)) {
        sleeps[std::stoi(task.path().filename())] = std::stoull(line.substr(label.size()));
      }
    }
  }
  std::vector<std::uint64_t> counts;
  for (const auto& [thread, count] : sleeps) {
    counts.push_back(count);
  }
  return counts;
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

// Two that wait for the same messages would both be woken for each.
TEST(ManagersTest, TheSecondSleepsUntilTheFirstHasManyReadsUnderWay) {
  constexpr std::uint64_t bytes = 16 * mib;
  const TemporaryDirectory directory;
  write_known_file(directory / "data", bytes);
  CacheOptions options;
  options.budget_bytes = 2 * mib;
  options.fault_mode = FaultMode::notify;
  options.publish_statistics = false;
  Cache cache(options);
  RegionOptions small_pages = read_only(4 * kib);
  small_pages.read_ahead_bytes = 0;
  const Region region =
      cache.map(open_store("file://" + directory.encoded() + "/data", OpenMode::read_only), small_pages);
  const auto read_some = [&region](std::uint64_t thread) {
    for (std::uint64_t turn = 0; turn < 200; ++turn) {
      const std::uint64_t offset = (thread * 977 + turn * 1597) % (bytes / (4 * kib)) * (4 * kib);
      ASSERT_EQ(touch(region.data() + offset), known_byte(offset));
    }
  };
  const auto second_sleeps = [] {
    const std::vector<std::uint64_t> sleeps = sleeps_of("tiermap-manage");
    EXPECT_EQ(sleeps.size(), 2U);
    return sleeps.back();
  };
  ASSERT_TRUE(comes_to_be([&] { return second_sleeps() > 0; }));
  const std::uint64_t before = second_sleeps();
  read_some(0);
  EXPECT_EQ(second_sleeps(), before) << "one thread has one read under way";
  EXPECT_TRUE(comes_to_be([&] {
    std::vector<std::jthread> threads;
    for (std::uint64_t thread = 0; thread < 64; ++thread) {
      threads.emplace_back(read_some, thread);
    }
    threads.clear();
    return second_sleeps() > before;
  }));
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
