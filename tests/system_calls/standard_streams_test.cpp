// A program that has closed its standard streams: Tiermap's own descriptors never take their numbers, for what the
// program (or Tiermap) then writes to "standard error" would go into a store.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exactness/engine_setting.hpp"
#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {
namespace {

constexpr int closed = 0;

/// What is open under the numbers 0 to 2, as bits; `closed` if nothing is.
int open_standard_streams() {
  int open = closed;
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    struct stat status{};
    open |= ::fstat(number, &status) == 0 ? 1 << number : 0;
  }
  return open;
}

/// The same, once threads that are just starting have let go of what has such a number for a moment.
int open_standard_streams_in_the_end() {
  for (int turn = 0; turn < 1000 && open_standard_streams() != closed; ++turn) {
    ::usleep(10'000);
  }
  return open_standard_streams();
}

// In a child, which has no other threads and no reader of its standard streams.
int use_everything_without_standard_streams(const EngineSetting& engine, const std::string& folder) {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    ::close(number);
  }
  CacheOptions options = cache_options(engine, 8 << 20);
  options.publish_statistics = true;
  Cache cache(options);
  RegionOptions writable;
  writable.access = Access::read_write;
  writable.length = 1 << 20;
  for (const char* url : {"/file", "/sparse"}) {
    const bool sparse = std::string_view(url) == "/sparse";
    if (sparse && engine.mode == FaultMode::kernel) {
      continue;
    }
    Region region = cache.map((sparse ? "sparse:" : "") + folder + url, writable);
    region.data()[5] = std::byte{7};
    region.sync();
    RegionOptions copy = writable;
    copy.sharing = Sharing::private_copy;
    region.unmap();
    const Region other = cache.map((sparse ? "sparse:" : "") + folder + url, copy);
    if (other.data()[5] != std::byte{7}) {
      return 98;
    }
    if (open_standard_streams_in_the_end() != closed) {
      break;
    }
  }
  return open_standard_streams_in_the_end();
}

class StandardStreams : public testing::TestWithParam<EngineSetting> {};

TEST_P(StandardStreams, ThatAreClosedStayClosed) {
  const TemporaryDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    int result = 100;
    try {
      result = use_everything_without_standard_streams(GetParam(), directory.path());
    } catch (const std::exception&) {
      result = 99;
    }
    ::_exit(result);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << "98: a wrong byte; 99: an exception; else what is open under 0, 1 and 2, as bits";
}

constexpr EngineSetting engines[] = {{FaultMode::notify, Placement::automatic},
                                     {FaultMode::self_serving, Placement::automatic},
                                     {FaultMode::kernel, Placement::automatic}};
INSTANTIATE_TEST_SUITE_P(Engines, StandardStreams, testing::ValuesIn(engines),
                         [](const auto& setting) { return engine_name(setting.param); });

}  // namespace
}  // namespace tiermap
