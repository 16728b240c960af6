#include "cluster/server/opened_files.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>

#include "tiermap/error.hpp"

namespace tiermap {
namespace {

std::set<int> open_descriptors() {
  std::error_code error;
  std::set<int> descriptors;
  std::filesystem::directory_iterator at("/proc/self/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    const std::string name = at->path().filename();
    int descriptor = -1;
    std::from_chars(name.data(), name.data() + name.size(), descriptor);
    descriptors.insert(descriptor);
  }
  if (error) {
    throw StoreError(error.value(), "/proc/self/fd cannot be listed (" + error.message() + "): mount /proc");
  }
  return descriptors;
}

}  // namespace

OpenedFiles::OpenedFiles() : before_(open_descriptors()) {}

std::set<FileIdentity> OpenedFiles::since() const {
  std::set<FileIdentity> files;
  for (const int descriptor : open_descriptors()) {
    struct stat status = {};
    if (!before_.contains(descriptor) && ::fstat(descriptor, &status) == 0 &&
        (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode))) {
      files.emplace(status.st_dev, status.st_ino);
    }
  }
  return files;
}

}  // namespace tiermap
