// A userfaultfd as an object, and the ways of getting one. Calls return 0 or a negative errno value, allocate nothing
// and may be made from a signal handler, but for opening and probing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/userfaultfd_abi.hpp"

namespace tiermap {

/// One way of getting a userfaultfd, tried.
struct UserfaultfdAttempt {
  std::string way;       ///< "/dev/userfaultfd", "userfaultfd system call", "user-mode-only system call".
  int error_number = 0;  ///< 0 if it worked.
  std::string remedy;    ///< What would make it work; empty if it did.
};

/// What this process may have of userfaultfd.
struct UserfaultfdProbe {
  std::vector<UserfaultfdAttempt> attempts;  ///< In the order tried, up to and including the first that worked.
  std::uint64_t features = 0;                ///< UFFD_FEATURE_ bits of the kernel; 0 if none worked.
  bool available = false;
  bool user_mode_only = false;  ///< Faults of system calls are not served: they fail with EFAULT.
};

/// Tries /dev/userfaultfd, then the system call whatever the first one's error was, then user-mode-only.
UserfaultfdProbe probe_userfaultfd();

/// Tries all three ways, whatever came of those before; for reports.
std::vector<UserfaultfdAttempt> try_every_userfaultfd_way();

class Userfaultfd {
 public:
  /// Opens one in the first way that works, with exactly these UFFD_FEATURE_ bits. Throws PlatformError naming every
  /// way tried and its remedy.
  static Userfaultfd open(std::uint64_t features);

  Userfaultfd(Userfaultfd&& other) noexcept;
  Userfaultfd& operator=(Userfaultfd&&) = delete;
  ~Userfaultfd();

  int file_descriptor() const noexcept { return file_descriptor_; }

  /// Registers for missing pages, write-protection, or both (UFFDIO_REGISTER_MODE_ bits).
  int register_range(void* start, std::size_t bytes, std::uint64_t mode) const noexcept;
  int unregister_range(void* start, std::size_t bytes) const noexcept;

  /// Moves pages from `source` to `destination`. Goes on after partial moves and waits out transient pins for a while;
  /// `retries` counts how often. Wakes nobody. On failure nothing, or a first part, has moved: `moved_bytes` says how
  /// much.
  int move(void* destination, void* source, std::size_t bytes, std::size_t& moved_bytes,
           std::uint64_t& retries) const noexcept;

  /// Copies into absent pages, write-protected at once if asked. Wakes nobody.
  int copy(void* destination, const void* source, std::size_t bytes, bool write_protected) const noexcept;

  /// Write-protects, or lifts it and wakes who waited for that.
  int protect(void* start, std::size_t bytes) const noexcept;
  int unprotect(void* start, std::size_t bytes) const noexcept;

  /// Makes accesses to absent pages raise SIGBUS (-EINVAL before Linux 6.6).
  int poison(void* start, std::size_t bytes) const noexcept;

  /// Lets every thread that waits for a fault in the range try again.
  int wake(void* start, std::size_t bytes) const noexcept;

  /// Reads messages without waiting; returns how many, or a negative errno value (-EAGAIN: none).
  std::int64_t read_messages(std::span<uffd_msg> messages) const noexcept;

 private:
  explicit Userfaultfd(int file_descriptor) noexcept : file_descriptor_(file_descriptor) {}
  int file_descriptor_;
};

}  // namespace tiermap
