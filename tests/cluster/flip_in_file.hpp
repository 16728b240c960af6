// A bit that changes in a file at rest.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace tiermap {

inline void flip_in_file(const std::string& path, std::uint64_t offset) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0) << path;
  unsigned char byte = 0;
  EXPECT_EQ(::pread(descriptor, &byte, 1, static_cast<off_t>(offset)), 1);
  byte ^= 16U;
  EXPECT_EQ(::pwrite(descriptor, &byte, 1, static_cast<off_t>(offset)), 1);
  ::close(descriptor);
}

}  // namespace tiermap
