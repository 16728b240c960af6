#include "preload/own_descriptors.hpp"

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

/// In order, as they are now.
std::vector<int> descriptors_in(DIR* folder) {
  std::vector<int> found;
  ::rewinddir(folder);
  while (const dirent* entry = ::readdir(folder)) {
    if (entry->d_name[0] != '.') {
      found.push_back(std::atoi(entry->d_name));
    }
  }
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

// Kept open: the engine may take the last numbers that the program may have.
OwnDescriptors::Watch::Watch(OwnDescriptors& owner) : owner_(owner), folder_(::opendir("/proc/self/fd"), &::closedir) {
  if (folder_ == nullptr) {
    const int error = errno;
    throw PlatformError(error, error == EMFILE || error == ENFILE
                                   ? "no descriptor is left: raise the limit of open files"
                                   : "cannot tell which descriptors are open: let the program see /proc");
  }
  before_ = descriptors_in(folder_.get());
}

OwnDescriptors::Watch::~Watch() {
  try {
    for (const int descriptor : descriptors_in(folder_.get())) {
      if (!std::ranges::binary_search(before_, descriptor) && is_engines_kind(descriptor)) {
        owner_.add_engines(descriptor);
      }
    }
  } catch (const std::exception&) {  // There is no memory for the list.
  }
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
