#include "preload/own_descriptors.hpp"

#include <dirent.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>

#include "tiermap/error.hpp"

namespace tiermap::preload {
namespace {

/// Whether the descriptor is open on something of a kind that the engine opens.
bool is_engines_kind(int descriptor) {
  char target[256];
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t length = ::readlink(link.c_str(), target, sizeof target);
  if (length <= 0) {
    return false;
  }
  const std::string_view name(target, static_cast<std::size_t>(length));
  return name == "anon_inode:[userfaultfd]" || name == "anon_inode:[io_uring]" || name == "anon_inode:[eventfd]" ||
         name.starts_with("/dev/shm/tiermap");
}

/// In order, but for the one that the look itself needs: its number is free again. Throws PlatformError.
std::vector<int> open_descriptors() {
  std::vector<int> found;
  DIR* folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) {
    throw PlatformError(errno, "cannot tell which descriptors are open: let the program see /proc");
  }
  while (const dirent* entry = ::readdir(folder)) {
    const int descriptor = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && descriptor != ::dirfd(folder)) {
      found.push_back(descriptor);
    }
  }
  ::closedir(folder);
  std::ranges::sort(found);
  return found;
}

}  // namespace

bool OwnDescriptors::owns_any(unsigned first, unsigned last) const noexcept {
  for (unsigned number = first; number <= last && number < most; ++number) {
    if (number % 64 == 0 && own_[number / 64].load(std::memory_order_relaxed) == 0) {
      number += 63;
    } else if (owns(static_cast<int>(number))) {
      return true;
    }
  }
  return false;
}

OwnDescriptors::Watch::Watch(OwnDescriptors& owner) : owner_(owner), before_(open_descriptors()) {}

OwnDescriptors::Watch::~Watch() try {
  for (const int descriptor : open_descriptors()) {
    if (!std::ranges::binary_search(before_, descriptor) && is_engines_kind(descriptor)) {
      owner_.add_engines(descriptor);
    }
  }
} catch (const std::exception&) {  // It could be seen just now.
}

void OwnDescriptors::close_engines() noexcept {
  for (int word = 0; word < most / 64; ++word) {
    for (std::uint64_t left = engines_[static_cast<std::size_t>(word)].load(); left != 0; left &= left - 1) {
      const int descriptor = word * 64 + std::countr_zero(left);
      remove(descriptor);
      ::syscall(SYS_close, descriptor);
    }
  }
}

}  // namespace tiermap::preload
