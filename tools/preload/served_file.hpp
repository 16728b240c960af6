// The file behind a descriptor, where a part of it is served, and calls that change it.
#pragma once

#include <errno.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>

#include "platform/signals_blocked.hpp"
#include "preload/kernel_calls.hpp"
#include "preload/library.hpp"

namespace tiermap::preload {

struct ServedFile {
  Mappings* mappings = nullptr;
  FileIdentity file;
  std::uint64_t bytes = 0;
  explicit operator bool() const noexcept { return mappings != nullptr; }
};

/// Empty if nothing of the file is served (or, with `written_to`, through no mapping that can be written).
inline ServedFile served_file(int descriptor, bool written_to) noexcept {
  Mappings* mappings = served_mappings();
  if (mappings == nullptr || (written_to && !mappings->served().any_writable())) {
    return {};
  }
  const int saved = errno;
  struct stat status = {};
  const bool seen = kernel::status(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  errno = saved;
  const FileIdentity file = FileIdentity::of(status);
  if (!seen || !mappings->served().hold(file, written_to) || !mappings->owned_by_caller()) {
    return {};
  }
  return {mappings, file, static_cast<std::uint64_t>(status.st_size)};
}

inline std::uint64_t position_of(int descriptor) noexcept {
  const off_t position = ::lseek(descriptor, 0, SEEK_CUR);
  return position < 0 ? 0 : static_cast<std::uint64_t>(position);
}

/// A call that may be changing a file of which nothing is served: said before served_file() is asked.
class Change : public ChangesUnderWay::Change {
 public:
  explicit Change(int descriptor, bool may_wait = false) noexcept
      : ChangesUnderWay::Change(changes_of(mappings_for_caller()), descriptor, may_wait) {}

 private:
  static ChangesUnderWay* changes_of(Mappings* mappings) noexcept {
    return mappings == nullptr ? nullptr : &mappings->changes_under_way();
  }
};

/// Whether another thread may be about to map a file that this one is to change.
inline bool others_may_map() noexcept {
  return mappings_for_caller() != nullptr && !__libc_single_threaded;
}

/// Where a call will write that is not told where, and the file's size. While this lives no other thread's call of that
/// kind comes in between.
class NextPlace {
 public:
  NextPlace(const ServedFile& file, int descriptor) : held_(file.mappings->position_lock(file.file)) {
    struct stat status = {};
    kernel::status(descriptor, &status);
    size_ = static_cast<std::uint64_t>(status.st_size);
    const bool appends = (static_cast<int>(::syscall(SYS_fcntl, descriptor, F_GETFL)) & O_APPEND) != 0;
    start_ = appends ? size_ : position_of(descriptor);
  }
  std::uint64_t start() const noexcept { return start_; }
  std::uint64_t size() const noexcept { return size_; }

 private:
  const SignalsBlocked quiet_;  // No handler meets the lock that its own thread holds.
  const std::unique_lock<std::mutex> held_;
  std::uint64_t start_ = 0;
  std::uint64_t size_ = 0;
};

/// Runs a call that changes [offset, offset + bytes) of the file, or so many bytes where it will write next if `offset`
/// is negative. Making the file longer changes what lies between its old end and the new. -1, with errno, if what is
/// dirty there cannot be written.
template <typename Call>
auto around_change(int descriptor, off_t offset, std::uint64_t bytes, Call call,
                   IfUnwritten if_unwritten = IfUnwritten::fail) {
  const Change change(descriptor);
  const ServedFile file = served_file(descriptor, false);
  if (!file) {
    const auto result = call();
    change.end();
    return result;
  }
  change.end();
  std::optional<NextPlace> next;
  if (offset < 0) {
    next.emplace(file, descriptor);
  }
  const std::uint64_t at = next.has_value() ? next->start() : static_cast<std::uint64_t>(offset);
  const std::uint64_t from = std::min(at, next.has_value() ? next->size() : file.bytes);
  decltype(call()) result = -1;
  int error = 0;
  const int problem = file.mappings->around_change(file.file, from, at - from + bytes, if_unwritten, [&] {
    result = call();
    error = errno;
  });
  errno = problem != 0 ? problem : error;
  return result;
}

}  // namespace tiermap::preload
