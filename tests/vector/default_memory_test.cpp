// Vectors, tiers and caches of which nobody has said how much memory they may take get no more together than there is.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "config/environment.hpp"
#include "platform/memory_limits.hpp"
#include "platform/memory_promise.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/cache.hpp"
#include "tiermap/vector.hpp"

namespace tiermap {
namespace {

using Numbers = Vector<std::uint64_t>;

class DefaultMemoryTest : public CleanEnvironment {
 protected:
  void SetUp() override {
    if (Cache().fault_mode() == FaultMode::kernel) {
      GTEST_SKIP() << "in fault mode kernel the memory is the kernel's";
    }
  }
  /// And a half, which other processes may give back meanwhile.
  static std::uint64_t all_bytes() { return read_machine_memory().usable_bytes() / 2 * 3; }
  Numbers make() const { return Numbers::temporary(1 << 17, {}, directory_.path()); }
  static std::uint64_t budget_of(Numbers& vector) { return vector.region().statistics().budget_bytes; }
  std::string tiered_url(const std::string& capacity) const {
    write_file(directory_ / "tiers.yaml", "block: 64KiB\ntiers: [{name: dram, capacity: " + capacity + "}]\n");
    return "tiered://" + directory_.encoded() + "/tiers.yaml?store=" + (directory_ / "behind");
  }

  const TemporaryDirectory directory_;
};

TEST_F(DefaultMemoryTest, vectors_have_no_more_of_it_together_than_there_is) {
  const std::uint64_t all = all_bytes();
  std::vector<Numbers> vectors;
  std::uint64_t together = 0;
  for (int vector = 0; vector < 4; ++vector) {
    vectors.push_back(make());
    together += budget_of(vectors.back());
  }
  EXPECT_LT(together, all);
}

TEST_F(DefaultMemoryTest, nor_where_threads_open_them_at_once) {
  const std::uint64_t all = all_bytes();
  std::vector<std::optional<Numbers>> vectors(4);
  std::vector<std::thread> threads;
  for (std::optional<Numbers>& vector : vectors) {
    threads.emplace_back([&] { vector = make(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::uint64_t together = 0;
  for (std::optional<Numbers>& vector : vectors) {
    together += budget_of(*vector);
  }
  EXPECT_LT(together, all);
}

TEST_F(DefaultMemoryTest, what_is_closed_or_bound_is_there_for_others) {
  const std::uint64_t half = read_machine_memory().usable_bytes() / 2;
  for (int turn = 0; turn < 3; ++turn) {
    EXPECT_GT(Cache().budget_bytes(), half / 2) << "those before are gone";
  }
  Cache bound;
  bound.set_budget_bytes(16 << 20);
  EXPECT_GT(Cache().budget_bytes(), half / 4 * 3);
  bound.set_budget_bytes(half);
  EXPECT_LT(Cache().budget_bytes(), half / 4 * 3);
}

TEST_F(DefaultMemoryTest, however_many_there_are_each_works) {
  std::vector<Numbers> vectors;
  for (int vector = 0; vector < 24; ++vector) {
    vectors.push_back(make());
    const std::span<std::uint64_t> all = vectors.back().span();
    std::iota(all.begin(), all.end(), 0);
  }
  for (Numbers& vector : vectors) {
    EXPECT_GE(budget_of(vector), 16U << 20);
    EXPECT_EQ(vector[12345], 12345U);
  }
}

TEST_F(DefaultMemoryTest, what_pages_have_taken_is_not_counted_twice) {
  constexpr std::uint64_t bytes = 128 << 20;
  bool is_left = false;
  for (int turn = 0; turn < 20 && !is_left; ++turn) {  // Other processes take memory, too.
    Cache cache({.budget_bytes = bytes});
    const Region region = cache.map("memory:96MiB", {.access = Access::read_only});
    const std::uint64_t before = MemoryPromise::left_bytes();
    for (std::uint64_t offset = 0; offset < region.size(); offset += 4096) {
      static_cast<void>(*const_cast<volatile std::byte*>(region.data() + offset));
    }
    is_left = MemoryPromise::left_bytes() > before - bytes / 4;
  }
  EXPECT_TRUE(is_left);
}

#if !defined(__SANITIZE_THREAD__)  // Which lets no child of several threads start one.
TEST_F(DefaultMemoryTest, a_child_has_a_half_of_its_own) {
  const Cache most({.budget_bytes = read_machine_memory().usable_bytes() / 16 * 15});
  const std::uint64_t here = Cache().budget_bytes();
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    ::_exit(Cache().budget_bytes() > 4 * here ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

TEST_F(DefaultMemoryTest, a_tier_and_a_budget_share_it) {
  const std::uint64_t all = all_bytes();
  const std::string half = std::to_string(read_machine_memory().usable_bytes() / 65536 / 4 * 3 * 65536);
  testing::internal::CaptureStderr();
  auto vector = Numbers::create(tiered_url(half), 0);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_LT(budget_of(vector) + vector.tier_reports().front().capacity_bytes, all);
  EXPECT_TRUE(said.starts_with("tiermap: tier 'dram' has ")) << said;
}

TEST_F(DefaultMemoryTest, a_budget_leaves_a_tier_what_it_may_take) {
  const std::uint64_t half = read_machine_memory().usable_bytes() / 65536 / 2 * 65536;
  Cache small({.budget_bytes = 4 << 20});
  auto vector = Numbers::create(tiered_url(std::to_string(half)), 0, {.cache = &small});
  EXPECT_EQ(vector.tier_reports().front().capacity_bytes, half);
  EXPECT_LT(Cache().budget_bytes(), half / 4 * 3);
}

TEST_F(DefaultMemoryTest, vectors_on_one_file_of_tiers_have_tiers_of_their_own_as_far_as_there_is_memory) {
  Cache small({.budget_bytes = 8 << 20});
  const std::uint64_t half = read_machine_memory().usable_bytes() / 65536 / 2 * 65536;
  const std::string url = tiered_url(std::to_string(half));
  auto first = Numbers::create(url, 0, {.cache = &small});
  testing::internal::CaptureStderr();
  auto second = Numbers::create(url + "-of-another", 0, {.cache = &small});
  auto third = Numbers::create(url + "-of-a-third", 0, {.cache = &small});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(first.tier_reports().front().capacity_bytes, half);
  EXPECT_GT(second.tier_reports().front().capacity_bytes, half / 4);
  EXPECT_LT(third.tier_reports().front().capacity_bytes, half / 2);
  EXPECT_NE(said.find("tier 'dram' has "), std::string::npos) << said;
}

}  // namespace
}  // namespace tiermap
