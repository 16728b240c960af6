// Tests that must hold however faults are served: each runs for every engine and placement named here.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "platform/userfaultfd.hpp"
#include "region/known_bytes.hpp"
#include "region/raised_signal.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {

struct EngineChoice {
  FaultMode fault_mode;
  Placement placement;
  const char* name;
};

/// Whether this kernel has UFFDIO_MOVE.
inline bool kernel_moves() {
  static const bool moves = (probe_userfaultfd().features & UFFD_FEATURE_MOVE) != 0;
  return moves;
}

class EngineTest : public ::testing::TestWithParam<EngineChoice> {
 protected:
  void SetUp() override {
    if (GetParam().placement == Placement::move && !kernel_moves()) {
      GTEST_SKIP() << "placement move needs UFFDIO_MOVE, which Linux has since 6.8";
    }
  }
  /// Options of a cache with the engine under test.
  static CacheOptions cache_options(std::uint64_t budget_bytes) {
    CacheOptions options;
    options.budget_bytes = budget_bytes;
    options.fault_mode = GetParam().fault_mode;
    options.placement = GetParam().placement;
    options.publish_statistics = false;
    return options;
  }
};

inline std::string engine_name(const ::testing::TestParamInfo<EngineChoice>& info) {
  return info.param.name;
}

/// Automatic placement copies small pages, such as most tests here use, and moves the others.
inline const auto every_engine =
    ::testing::Values(EngineChoice{FaultMode::notify, Placement::automatic, "notify"},
                      EngineChoice{FaultMode::self_serving, Placement::automatic, "self_serving"},
                      EngineChoice{FaultMode::notify, Placement::move, "notify_move"},
                      EngineChoice{FaultMode::self_serving, Placement::move, "self_serving_move"},
                      EngineChoice{FaultMode::notify, Placement::copy, "notify_copy"},
                      EngineChoice{FaultMode::self_serving, Placement::copy, "self_serving_copy"});

inline RegionOptions read_write(std::uint64_t page_size_bytes, std::uint64_t length = 0) {
  RegionOptions options;
  options.access = Access::read_write;
  options.length = length;
  options.page_size_bytes = page_size_bytes;
  return options;
}

inline RegionOptions read_only(std::uint64_t page_size_bytes, std::uint64_t length = 0) {
  RegionOptions options;
  options.length = length;
  options.page_size_bytes = page_size_bytes;
  return options;
}

inline std::span<const std::byte> bytes_of(const Region& region) {
  return {region.data(), region.size()};
}

/// Reads a byte for certain, as others may write it.
[[gnu::no_sanitize_thread]] inline std::byte touch(const std::byte* address) {
  return *static_cast<const volatile std::byte*>(address);
}
/// Writes a byte for certain, as others may read it.
[[gnu::no_sanitize_thread]] inline void poke(std::byte* address, std::byte value) {
  *static_cast<volatile std::byte*>(address) = value;
}

}  // namespace tiermap
