// A bit that changes in a file at rest, also in one without a name.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

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

/// What a process has open without a name, but for the inodes in `seen`, to which these are added.
inline std::vector<std::string> new_nameless_files(const std::string& process, std::set<std::uint64_t>& seen) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + process + "/fd")) {
    struct ::stat status{};
    if (::stat(entry.path().c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 0 &&
        seen.insert(status.st_ino).second) {
      files.push_back(entry.path());
    }
  }
  return files;
}

/// Of another process: what it has open without a name, but for what whoever ran the tests has left open for all.
inline std::vector<std::string> nameless_files_of(pid_t process) {
  std::set<std::uint64_t> seen;
  new_nameless_files("self", seen);
  return new_nameless_files(std::to_string(process), seen);
}

}  // namespace tiermap
