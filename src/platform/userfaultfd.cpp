#include "platform/userfaultfd.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

#include "platform/own_descriptor.hpp"
#include "platform/page_sizes.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

int negative_errno(int result) noexcept {
  return result == 0 ? 0 : -errno;
}

int open_device() {
  const int device = ::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    return -errno;
  }
  const int descriptor = ::ioctl(device, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
  const int error_number = errno;
  ::close(device);
  errno = error_number;
  const int own = above_standard_streams(descriptor);
  return own < 0 ? -errno : own;
}

int open_by_system_call(int flags) {
  const long descriptor = ::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | flags);
  const int own = above_standard_streams(static_cast<int>(descriptor));
  return own < 0 ? -errno : own;
}

std::string device_remedy(int error_number) {
  if (error_number == ENOENT) {
    return "Linux 6.1 and later have the device; older kernels need the system call";
  }
  return "give the user read and write permission on /dev/userfaultfd (a udev rule, or setfacl -m u:NAME:rw)";
}

std::string system_call_remedy(int error_number) {
  if (error_number == ENOSYS) {
    return "use a kernel with CONFIG_USERFAULTFD, or a container profile that allows userfaultfd";
  }
  return "set sysctl vm.unprivileged_userfaultfd=1, or grant CAP_SYS_PTRACE; in a container, allow userfaultfd in the "
         "seccomp profile";
}

struct Opened {
  int descriptor = -1;
  bool user_mode_only = false;
  std::vector<UserfaultfdAttempt> attempts;
};

struct Way {
  const char* name;
  std::function<int()> open;
  std::function<std::string(int)> remedy;
};

std::array<Way, 3> all_ways() {
  return {{
      {"/dev/userfaultfd", open_device, device_remedy},
      {"userfaultfd system call", [] { return open_by_system_call(0); }, system_call_remedy},
      {"user-mode-only system call", [] { return open_by_system_call(UFFD_USER_MODE_ONLY); }, system_call_remedy},
  }};
}

/// What became of it: `descriptor` is what it opened, or a negative errno value.
UserfaultfdAttempt attempt_by(const Way& way, int descriptor) {
  if (descriptor >= 0) {
    return {way.name, 0, ""};
  }
  const bool too_many = descriptor == -EMFILE || descriptor == -ENFILE;
  return {way.name, -descriptor,
          too_many ? "raise the limit of open files (ulimit -n), or close some" : way.remedy(-descriptor)};
}

Opened try_all_ways() {
  const std::array<Way, 3> ways = all_ways();
  Opened opened;
  for (const Way& way : ways) {
    const int descriptor = way.open();
    opened.attempts.push_back(attempt_by(way, descriptor));
    if (descriptor >= 0) {
      opened.descriptor = descriptor;
      opened.user_mode_only = &way == &ways[2];
      break;
    }
  }
  return opened;
}

int negotiate(int descriptor, std::uint64_t wanted, std::uint64_t& offered) {
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = wanted;
  const int result = negative_errno(::ioctl(descriptor, UFFDIO_API, &api));
  offered = api.features;
  return result;
}

/// The kernel moves, copies and poisons within one mapping a side. A program may have cut a page in two, by advice or a
/// lock for a part of it: then 4 KiB at a time does.
bool may_lie_across_mappings(int error_number, std::size_t bytes) noexcept {
  return (error_number == EINVAL || error_number == ENOENT) && bytes > kernel_page_bytes;
}

/// Whether memory lies at each 4 KiB page of a range, which has at most `mincore_pages`.
constexpr std::size_t mincore_pages = 64;
using Residency = std::array<unsigned char, mincore_pages>;
bool look(std::uint64_t start, std::size_t pages, Residency& resident) noexcept {
  return ::mincore(reinterpret_cast<void*>(start), pages * kernel_page_bytes, resident.data()) == 0;
}

/// How many bytes at the beginning of a move that was refused with EEXIST have moved all the same.
///
/// Linux since 6.18 moves several pages at a time. Where it has to try again inside one call (EAGAIN: a page-table
/// entry changed under it, as when accessed bits are cleared), it keeps that error although the second attempt
/// succeeds, tries a third time, and finds the destination occupied, by the very pages it has moved. Both ranges are
/// the caller's: where the source has gone and the destination is there, the page has moved.
std::size_t moved_untold(const uffdio_move& request) noexcept {
  std::size_t moved_bytes = 0;
  while (moved_bytes < request.len) {
    const std::size_t pages = std::min<std::size_t>(mincore_pages, (request.len - moved_bytes) / kernel_page_bytes);
    Residency source{};
    Residency destination{};
    if (!look(request.src + moved_bytes, pages, source) || !look(request.dst + moved_bytes, pages, destination)) {
      return moved_bytes;
    }
    for (std::size_t page = 0; page < pages; ++page, moved_bytes += kernel_page_bytes) {
      if ((source[page] & 1U) != 0 || (destination[page] & 1U) == 0) {
        return moved_bytes;
      }
    }
  }
  return moved_bytes;
}

}  // namespace

std::vector<UserfaultfdAttempt> try_every_userfaultfd_way() {
  std::vector<UserfaultfdAttempt> attempts;
  for (const Way& way : all_ways()) {
    const int descriptor = way.open();
    attempts.push_back(attempt_by(way, descriptor));
    if (descriptor >= 0) {
      ::close(descriptor);
    }
  }
  return attempts;
}

UserfaultfdProbe probe_userfaultfd() {
  Opened opened = try_all_ways();
  UserfaultfdProbe probe;
  probe.attempts = std::move(opened.attempts);
  if (opened.descriptor >= 0) {
    probe.available = negotiate(opened.descriptor, 0, probe.features) == 0;
    probe.user_mode_only = opened.user_mode_only;
    ::close(opened.descriptor);
  }
  return probe;
}

Userfaultfd Userfaultfd::open(std::uint64_t features) {
  Opened opened = try_all_ways();
  if (opened.descriptor < 0) {
    std::string message = "userfaultfd is refused:";
    for (const UserfaultfdAttempt& attempt : opened.attempts) {
      message += " " + attempt.way + " (" + std::strerror(attempt.error_number) + "): " + attempt.remedy + ";";
    }
    message += " or use fault mode kernel";
    throw PlatformError(opened.attempts.back().error_number, message);
  }
  Userfaultfd result(opened.descriptor);
  std::uint64_t offered = 0;
  if (const int error = negotiate(opened.descriptor, features, offered); error != 0) {
    throw PlatformError(
        -error, "this kernel's userfaultfd lacks a feature asked for: use Linux 5.11 or later, or fault mode kernel");
  }
  return result;
}

Userfaultfd::Userfaultfd(Userfaultfd&& other) noexcept : file_descriptor_(std::exchange(other.file_descriptor_, -1)) {}

Userfaultfd::~Userfaultfd() {
  if (file_descriptor_ >= 0) {
    ::close(file_descriptor_);
  }
}

int Userfaultfd::register_range(void* start, std::size_t bytes, std::uint64_t mode) const noexcept {
  uffdio_register request{};
  request.range = {reinterpret_cast<std::uint64_t>(start), bytes};
  request.mode = mode;
  return negative_errno(::ioctl(file_descriptor_, UFFDIO_REGISTER, &request));
}

int Userfaultfd::unregister_range(void* start, std::size_t bytes) const noexcept {
  uffdio_range range{reinterpret_cast<std::uint64_t>(start), bytes};
  return negative_errno(::ioctl(file_descriptor_, UFFDIO_UNREGISTER, &range));
}

int Userfaultfd::move(void* destination, void* source, std::size_t bytes, std::size_t& moved_bytes,
                      std::uint64_t& retries) const noexcept {
  // A page that O_DIRECT has just filled can stay pinned for some microseconds after the completion was reported; a
  // long-term pin (the application's own asynchronous I/O) lasts, and is the caller's to wait for.
  constexpr int most_busy_retries = 200;
  int busy_retries = 0;
  std::size_t most_at_once = bytes;
  moved_bytes = 0;
  while (moved_bytes < bytes) {
    uffdio_move request{};
    request.dst = reinterpret_cast<std::uint64_t>(destination) + moved_bytes;
    request.src = reinterpret_cast<std::uint64_t>(source) + moved_bytes;
    request.len = std::min(most_at_once, bytes - moved_bytes);
    request.mode = UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES | UFFDIO_MOVE_MODE_DONTWAKE;
    if (::ioctl(file_descriptor_, UFFDIO_MOVE, &request) == 0) {
      moved_bytes += request.len;
      continue;
    }
    const int error_number = errno;
    if (may_lie_across_mappings(error_number, request.len)) {
      most_at_once = kernel_page_bytes;
      continue;
    }
    const std::size_t untold = error_number == EEXIST ? moved_untold(request) : 0;
    moved_bytes += request.move > 0 ? static_cast<std::size_t>(request.move) : untold;
    if (untold > 0) {
      ++retries;
      continue;
    }
    if (error_number == EBUSY && ++busy_retries <= most_busy_retries) {
      ::sched_yield();
    } else if (error_number != EAGAIN) {
      return -error_number;
    }
    ++retries;
  }
  return 0;
}

int Userfaultfd::copy(void* destination, const void* source, std::size_t bytes, bool write_protected) const noexcept {
  std::size_t most_at_once = bytes;
  std::size_t done = 0;
  while (done < bytes) {
    uffdio_copy request{};
    request.dst = reinterpret_cast<std::uint64_t>(destination) + done;
    request.src = reinterpret_cast<std::uint64_t>(source) + done;
    request.len = std::min(most_at_once, bytes - done);
    request.mode = UFFDIO_COPY_MODE_DONTWAKE | (write_protected ? UFFDIO_COPY_MODE_WP : 0);
    if (::ioctl(file_descriptor_, UFFDIO_COPY, &request) == 0) {
      done += request.len;
      continue;
    }
    const int error_number = errno;
    if (may_lie_across_mappings(error_number, request.len)) {
      most_at_once = kernel_page_bytes;
      continue;
    }
    if (request.copy > 0) {
      done += static_cast<std::size_t>(request.copy);
    }
    if (error_number != EAGAIN) {
      return -error_number;
    }
  }
  return 0;
}

int Userfaultfd::protect(void* start, std::size_t bytes) const noexcept {
  uffdio_writeprotect request{};
  request.range = {reinterpret_cast<std::uint64_t>(start), bytes};
  request.mode = UFFDIO_WRITEPROTECT_MODE_WP;
  int result = 0;
  do {
    result = negative_errno(::ioctl(file_descriptor_, UFFDIO_WRITEPROTECT, &request));
  } while (result == -EAGAIN);
  return result;
}

int Userfaultfd::unprotect(void* start, std::size_t bytes) const noexcept {
  uffdio_writeprotect request{};
  request.range = {reinterpret_cast<std::uint64_t>(start), bytes};
  int result = 0;
  do {
    result = negative_errno(::ioctl(file_descriptor_, UFFDIO_WRITEPROTECT, &request));
  } while (result == -EAGAIN);
  return result;
}

int Userfaultfd::poison(void* start, std::size_t bytes) const noexcept {
  uffdio_poison request{};
  request.range = {reinterpret_cast<std::uint64_t>(start), bytes};
  const int result = negative_errno(::ioctl(file_descriptor_, UFFDIO_POISON, &request));
  if (result == 0 || !may_lie_across_mappings(-result, bytes)) {
    return result;
  }
  auto* piece = static_cast<std::byte*>(start);
  for (std::byte* const end = piece + bytes; piece < end; piece += kernel_page_bytes) {
    if (const int failed = poison(piece, kernel_page_bytes); failed != 0) {
      return failed;
    }
  }
  return 0;
}

int Userfaultfd::wake(void* start, std::size_t bytes) const noexcept {
  uffdio_range range{reinterpret_cast<std::uint64_t>(start), bytes};
  return negative_errno(::ioctl(file_descriptor_, UFFDIO_WAKE, &range));
}

std::int64_t Userfaultfd::read_messages(std::span<uffd_msg> messages) const noexcept {
  ssize_t bytes = 0;
  do {
    bytes = ::read(file_descriptor_, messages.data(), messages.size_bytes());
  } while (bytes < 0 && errno == EINTR);
  return bytes < 0 ? -errno : bytes / static_cast<ssize_t>(sizeof(uffd_msg));
}

}  // namespace tiermap
