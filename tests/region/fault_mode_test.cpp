// Which engine a cache gets, and what it says of it.
#include "platform/userfaultfd.hpp"
#include "region/engine_fixture.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

CacheOptions with_mode(FaultMode mode) {
  CacheOptions options;
  options.budget_bytes = 1 * mib;
  options.fault_mode = mode;
  options.publish_statistics = false;
  return options;
}

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

TEST(FaultMode, AutomaticPicksOneOfTheOthersAndSaysWhy) {
  const Cache cache(with_mode(FaultMode::automatic));
  const UserfaultfdProbe probe = probe_userfaultfd();
  if (!probe.available) {
    EXPECT_EQ(cache.fault_mode(), FaultMode::kernel);
  } else if (probe.user_mode_only) {
    EXPECT_EQ(cache.fault_mode(), FaultMode::self_serving);
  } else {
    EXPECT_EQ(cache.fault_mode(), FaultMode::notify);
  }
  EXPECT_TRUE(is_one_line(cache.fault_mode_reason()));
  const char* const names[] = {"automatic", "notify", "self-serving", "kernel"};
  EXPECT_EQ(cache.fault_mode_reason().rfind(names[static_cast<std::size_t>(cache.fault_mode())], 0), 0U)
      << cache.fault_mode_reason();
}

TEST(FaultMode, WhatWasRefusedIsNamedWithItsRemedy) {
  const Cache cache(with_mode(FaultMode::automatic));
  for (const UserfaultfdAttempt& attempt : probe_userfaultfd().attempts) {
    if (attempt.error_number != 0 && cache.fault_mode() != FaultMode::notify) {
      EXPECT_NE(cache.fault_mode_reason().find(attempt.way), std::string::npos) << cache.fault_mode_reason();
      EXPECT_NE(cache.fault_mode_reason().find(attempt.remedy), std::string::npos) << cache.fault_mode_reason();
    }
  }
}

TEST(FaultMode, WhatWasAskedForIsWhatOneGets) {
  for (const FaultMode mode : {FaultMode::notify, FaultMode::self_serving, FaultMode::kernel}) {
    const Cache cache(with_mode(mode));
    EXPECT_EQ(cache.fault_mode(), mode);
    EXPECT_NE(cache.fault_mode_reason().find("asked for"), std::string::npos) << cache.fault_mode_reason();
    EXPECT_TRUE(is_one_line(cache.fault_mode_reason()));
  }
}

TEST(FaultMode, NotifyServesSystemCallsAndSelfServingRefusesThem) {
  const auto directory = shared_memory_directory();
  const auto store = known_store(64 * kib);
  for (const FaultMode mode : {FaultMode::notify, FaultMode::self_serving}) {
    Cache cache(with_mode(mode));
    const Region region = cache.map(store, read_only(4 * kib));
    FILE* const file = std::fopen((directory / "out").c_str(), "w+");
    ASSERT_NE(file, nullptr);
    const ssize_t written = ::pwrite(::fileno(file), region.data(), 10'000, 0);
    if (mode == FaultMode::notify) {
      EXPECT_EQ(written, 10'000);
      EXPECT_TRUE(is_known(read_bytes(directory / "out"), 0));
    } else {
      EXPECT_LE(written, 0) << "the documentation says that it fails";
    }
    std::fclose(file);
  }
}

}  // namespace
}  // namespace tiermap
