// However a manager reads its messages (one by one, asleep between them), every fault is served; and it asks for as
// many at once as the option says.
#include <linux/userfaultfd.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernel_mode/refusals.hpp"
#include "region/engine_fixture.hpp"

namespace tiermap {
namespace {

constexpr std::uint64_t page = 4 * kib;
constexpr std::uint64_t store_bytes = 4 * mib;
constexpr std::uint64_t threads = 4;

struct Reading {
  std::uint32_t max_fault_events;
  std::uint32_t spin_microseconds;
};

class FaultMessages : public ::testing::TestWithParam<std::tuple<Placement, Reading>> {
 protected:
  static CacheOptions cache_options() {
    const auto [placement, reading] = GetParam();
    CacheOptions options;
    options.budget_bytes = 1 * mib;
    options.fault_mode = FaultMode::notify;
    options.placement = placement;
    options.max_fault_events = reading.max_fault_events;
    options.spin_microseconds = reading.spin_microseconds;
    options.publish_statistics = false;
    return options;
  }
};

std::string way_name(const ::testing::TestParamInfo<std::tuple<Placement, Reading>>& information) {
  const auto& [placement, reading] = information.param;
  return std::string(placement == Placement::copy ? "copy" : "automatic") + "_" +
         std::to_string(reading.max_fault_events) + "_at_once_spin_" + std::to_string(reading.spin_microseconds);
}

// Each thread has every fourth byte to itself, so that they meet on pages and not on bytes.
TEST_P(FaultMessages, ThreadsThatMeetOnPagesAreServed) {
  const auto store = known_store(store_bytes);
  Cache cache(cache_options());
  Region region = cache.map(store, read_write(page));
  std::vector<std::thread> workers;
  for (std::uint64_t number = 0; number < threads; ++number) {
    workers.emplace_back([&region, number] {
      for (std::uint64_t turn = 0; turn < store_bytes / page; ++turn) {
        const std::uint64_t offset = turn * 37 % (store_bytes / page) * page + number;
        if (touch(region.data() + offset) != known_byte(offset)) {
          ADD_FAILURE() << "offset " << offset;
          return;
        }
        poke(region.data() + offset, static_cast<std::byte>(number));
      }
    });
  }
  for (std::thread& worker : workers) {
    worker.join();
  }
  region.unmap();
  for (std::uint64_t offset = 0; offset < store_bytes; offset += page) {
    const std::vector<std::byte> found = read_store(*store, offset, threads + 1);
    for (std::uint64_t number = 0; number < threads; ++number) {
      ASSERT_EQ(found[number], static_cast<std::byte>(number)) << offset;
    }
    ASSERT_EQ(found[threads], known_byte(offset + threads)) << offset;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, FaultMessages,
                         ::testing::Combine(::testing::Values(Placement::automatic, Placement::copy),
                                            ::testing::Values(Reading{1, 20}, Reading{64, 0}, Reading{1, 0})),
                         way_name);

/// How a process ends, as waitpid() tells it, that has a page served and may not ask for `forbidden` messages at once:
/// a call that does ends it. Only a filter on calls sees how many are asked for.
int status_of(std::uint32_t max_fault_events, std::uint32_t forbidden) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    Refusals refusals;
    if (!refusals.kill_if(SYS_read, 2, ~0U, forbidden * static_cast<std::uint32_t>(sizeof(uffd_msg))).install()) {
      ::_exit(77);
    }
    CacheOptions options;
    options.budget_bytes = 1 * mib;
    options.fault_mode = FaultMode::notify;
    options.max_fault_events = max_fault_events;
    options.publish_statistics = false;
    Cache cache(options);
    const Region region = cache.map(known_store(page), read_only(page));
    ::_exit(touch(region.data()) == known_byte(0) ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(FaultMessagesAtOnce, AreAskedForAsTheOptionSays) {
  for (const std::uint32_t most : {1U, 3U, 64U, 1024U}) {
    for (const std::uint32_t forbidden : {1U, 3U, 64U, 1024U}) {
      const int status = status_of(most, forbidden);
      if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        GTEST_SKIP() << "no seccomp filters here";
      }
      if (most == forbidden) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) << most << " are not asked for at once";
      } else {
        EXPECT_EQ(status, 0) << "with " << most << " at once " << forbidden << " are asked for";
      }
    }
  }
}

}  // namespace
}  // namespace tiermap
