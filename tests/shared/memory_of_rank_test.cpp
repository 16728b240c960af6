// What a shared vector takes of its rank's memory, by the kernel's count.
#include <algorithm>
#include <fstream>
#include <limits>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "shared/rank_processes.hpp"
#include "tiermap/shared_vector.hpp"

namespace tiermap {
namespace {

/// Of this process, in bytes.
std::uint64_t anonymous_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "RssAnon:") {
      std::uint64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes << 10;
    }
  }
  return 0;
}

/// `use(element)` for all elements, by four threads at a time.
void for_each_of(SharedVector<std::uint64_t>& vector, const std::function<void(std::uint64_t)>& use) {
  constexpr std::uint64_t threads = 4;
  std::vector<std::thread> team;
  for (std::uint64_t thread = 0; thread < threads; ++thread) {
    team.emplace_back([&, thread] {
      for (std::uint64_t index = vector.size() * thread / threads; index < vector.size() * (thread + 1) / threads;
           ++index) {
        use(index);
      }
    });
  }
  std::ranges::for_each(team, [](std::thread& one) { one.join(); });
}

// Copies came from whichever thread's heap it was, and each of those kept what another thread, or another time, had
// freed there: it was up to half more than the budget.
TEST(MemoryOfRankTest, IsWhatTheVectorsBudgetSays) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers remember something of each byte that is touched";
#endif
  const Servers servers;
  run_job(servers, 1, [](Job& job) {
    constexpr std::uint64_t budget_bytes = std::uint64_t{32} << 20U;
    SharedVectorOptions options;
    options.budget_bytes = budget_bytes;
    const std::uint64_t before = anonymous_memory();
    auto vector = SharedVector<std::uint64_t>::create(job, "v", 2 * budget_bytes / sizeof(std::uint64_t), options);
    const auto taken = [&] { return static_cast<double>(anonymous_memory() - before) / budget_bytes; };
    for (std::uint64_t pass = 1; pass <= 3; ++pass) {
      for_each_of(vector, [&](std::uint64_t index) { vector[index] = index + pass; });
      EXPECT_LE(taken(), 1.15) << "written, pass " << pass;
      vector.release();
      EXPECT_LE(taken(), 1.15) << "released, pass " << pass;
      for_each_of(vector, [&](std::uint64_t index) { ASSERT_EQ(vector[index], index + pass); });
      EXPECT_LE(taken(), 1.15) << "read, pass " << pass;
    }
    EXPECT_GT(taken(), 0.9);
    vector.set_phase(Phase::read_only);
    EXPECT_LE(taken(), 0.85) << "with no copies";
    vector.destroy();
  });
}

}  // namespace
}  // namespace tiermap
