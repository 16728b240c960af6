#include "heap/disk_use.hpp"

#include <sys/stat.h>

#include <filesystem>

namespace tiermap {
namespace {

constexpr std::uint64_t bytes_of_stat_block = 512;

std::uint64_t bytes_of_file(const std::string& path) {
  struct stat status = {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return 0;
  }
  return static_cast<std::uint64_t>(status.st_blocks) * bytes_of_stat_block;
}

}  // namespace

std::uint64_t bytes_on_disk(const std::string& path) {
  std::uint64_t bytes = bytes_of_file(path);
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    bytes += bytes_of_file(entry->path().string());
  }
  return bytes;
}

}  // namespace tiermap
