// A cache in fault mode kernel and a file to map, for the tests of this folder.
#pragma once

#include <string>

#include "store/temporary_directory.hpp"
#include "tiermap/tiermap.hpp"

namespace tiermap {

inline CacheOptions kernel_options(std::uint64_t budget_bytes) {
  CacheOptions options;
  options.fault_mode = FaultMode::kernel;
  options.budget_bytes = budget_bytes;
  options.publish_statistics = false;
  return options;
}

/// File systems in memory have nothing to evict to: the folder of the build, not /tmp.
class KernelModeTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20;

  static RegionOptions writable(std::uint64_t length) {
    RegionOptions options;
    options.access = Access::read_write;
    options.length = length;
    return options;
  }
  std::string path() const { return directory_ / "data.bin"; }
  TemporaryDirectory directory_;
};

}  // namespace tiermap
