// Opening, closing and locking files.
#include <errno.h>
#include <linux/close_range.h>
#include <sched.h>
#include <stdarg.h>

#include "preload/program_memory.hpp"
#include "preload/served_file.hpp"

using tiermap::FileIdentity;
using tiermap::preload::around_change;
using tiermap::preload::IfUnwritten;
using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;
using tiermap::preload::next_calls;
using tiermap::preload::others_may_map;
using tiermap::preload::served_file;
using tiermap::preload::served_mappings;
using tiermap::preload::ServedFile;

namespace {

/// Opening with O_TRUNC changes the file that is there.
template <typename Call>
int truncate_by_opening(int directory, const char* path, Call call) {
  const auto lowest = static_cast<int>(::syscall(SYS_openat, directory, path, O_PATH | O_CLOEXEC));
  if (lowest < 0) {
    return call();
  }
  // The lowest number is the one that the call is to give.
  constexpr int high = 512;
  auto before = static_cast<int>(::syscall(SYS_fcntl, lowest, F_DUPFD_CLOEXEC, high));
  if (before < 0) {
    before = static_cast<int>(::syscall(SYS_fcntl, lowest, F_DUPFD_CLOEXEC, lowest + 1));
  }
  ::syscall(SYS_close, lowest);
  if (before < 0) {
    return call();
  }
  const int result = around_change(before, 0, INT64_MAX, call, IfUnwritten::go_on);
  const int error = errno;
  ::syscall(SYS_close, before);
  errno = error;
  return result;
}

int open_now(int directory, const char* path, int flags, mode_t mode) {
  return next_calls().openat == nullptr ? static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode))
                                        : next_calls().openat(directory, path, flags, mode);
}

int open_at(int directory, const char* path, int flags, mode_t mode) {
  if ((flags & O_TRUNC) == 0 || (served_mappings() == nullptr && !others_may_map())) {
    return open_now(directory, path, flags, mode);
  }
  const tiermap::preload::KeptPath kept(path);
  return truncate_by_opening(directory, kept.get(), [&] { return open_now(directory, kept.get(), flags, mode); });
}

bool takes_mode(int flags) noexcept {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

int refuse(int error_number) noexcept {
  errno = error_number;
  return -1;
}

/// A child of vfork() has descriptors of its own, of which it may do what it likes.
Mappings* owner_of(int descriptor) noexcept {
  Mappings* mappings = mappings_for_caller();
  const bool own = mappings != nullptr && mappings->own_descriptors().owns(descriptor) && mappings->owned_by_caller();
  return own ? mappings : nullptr;
}

/// The engine's threads have the table of descriptors that this thread had so far.
void before_own_table() noexcept {
  if (Mappings* mappings = mappings_for_caller(); mappings != nullptr && mappings->owned_by_caller()) {
    constexpr const char* reason = "a thread has descriptors of its own";
    mappings->serve_nothing_more(reason);
    mappings->give_back_all(reason);
  }
}

/// Before a call that the kernel refuses to programs that have several threads, or whose threads share a root.
void before_alone() noexcept {
  if (Mappings* mappings = mappings_for_caller(); mappings != nullptr && mappings->owned_by_caller()) {
    mappings->end_engine("the program enters a namespace, or leaves what threads share");
  }
}

int close_range_but_own(unsigned first, unsigned last, int flags) noexcept {
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_UNSHARE) != 0) {
    before_own_table();
  }
  Mappings* served = served_mappings();
  if (served != nullptr && served->has_locks() && (static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0) {
    static_cast<void>(served->write_back_all());
  }
  Mappings* mappings = mappings_for_caller();
  if (mappings == nullptr || !mappings->own_descriptors().owns_any(first, last)) {
    return static_cast<int>(::syscall(SYS_close_range, first, last, flags));
  }
  constexpr auto most = static_cast<unsigned>(tiermap::preload::OwnDescriptors::most);
  for (unsigned number = first; number <= last && number < most; ++number) {
    if (mappings->own_descriptors().owns(static_cast<int>(number))) {
      if (number > first) {
        ::syscall(SYS_close_range, first, number - 1, flags);
      }
      first = number + 1;
    }
  }
  return first <= last ? static_cast<int>(::syscall(SYS_close_range, first, last, flags)) : 0;
}

/// Before a descriptor is closed, and the locks end that hang on it.
void before_closing(int descriptor) noexcept {
  Mappings* mappings = served_mappings();
  if (mappings == nullptr || !mappings->has_locks()) {
    return;
  }
  const int saved = errno;
  if (const ServedFile file = served_file(descriptor, true)) {
    file.mappings->unlocking(file.file);
  }
  errno = saved;
}

/// A number of Tiermap's is free once nothing is served and the engine has ended, but for what keeps record locks.
template <typename Call>
int replace_descriptor(int from, int to, Call call) noexcept {
  if (Mappings* mappings = owner_of(to)) {
    if (owner_of(from) != nullptr || ::syscall(SYS_fcntl, from, F_GETFD) < 0) {
      return refuse(EBADF);
    }
    mappings->end_engine("the program has another use for the number of one of Tiermap's descriptors");
    if (owner_of(to) != nullptr) {
      return refuse(EBUSY);
    }
  }
  if (from != to) {
    before_closing(to);
  }
  return call();
}

enum class Lock { exclusive, shared, none };

Lock lock_of(const struct flock& lock) noexcept {
  return lock.l_type == F_WRLCK ? Lock::exclusive : lock.l_type == F_RDLCK ? Lock::shared : Lock::none;
}

/// Around `call`, which makes the program's lock this one. A lock taken may mean that others have changed the file. One
/// that is given up, or is only for reading from now on, means that they will look.
template <typename Call>
int around_lock(int descriptor, Lock lock, Call call) {
  const ServedFile file = served_file(descriptor, false);
  if (file && lock != Lock::exclusive) {
    file.mappings->unlocking(file.file);
  }
  const int result = call();
  const int error = errno;
  if (file && lock != Lock::none && result == 0) {
    file.mappings->locked(file.file);
  }
  errno = error;
  return result;
}

/// Tells the mappings, if they are the caller's, of the regular file behind a descriptor.
template <typename Tell>
void tell_of_file(int descriptor, Tell tell) noexcept {
  Mappings* mappings = mappings_for_caller();
  struct stat status = {};
  if (mappings != nullptr && mappings->owned_by_caller() &&
      tiermap::preload::kernel::status(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
    tell(*mappings, FileIdentity::of(status));
  }
}

void note_record_lock(int descriptor) noexcept {
  const int saved = errno;
  tell_of_file(descriptor, [](Mappings& mappings, FileIdentity file) {
    mappings.note_lock();
    mappings.record_locked().add(file);
  });
  errno = saved;
}

void note_lock_of_part(int descriptor) noexcept {
  tell_of_file(descriptor, [](Mappings& mappings, FileIdentity file) { mappings.note_lock_of_part(file); });
}

int control(int descriptor, int command, void* argument) {
  if (owner_of(descriptor) != nullptr) {
    return refuse(EBADF);
  }
  const auto call = [&] {
    return next_calls().fcntl == nullptr ? static_cast<int>(::syscall(SYS_fcntl, descriptor, command, argument))
                                         : next_calls().fcntl(descriptor, command, argument);
  };
  const bool ends_with_descriptor = command == F_SETLK || command == F_SETLKW;
  if (!ends_with_descriptor && command != F_OFD_SETLK && command != F_OFD_SETLKW) {
    return call();
  }
  if (ends_with_descriptor) {
    note_record_lock(descriptor);
  } else if (Mappings* mappings = mappings_for_caller()) {
    mappings->note_lock();
  }
  struct flock lock = {};
  const bool known = mappings_for_caller() != nullptr &&
                     tiermap::preload::copy_from_program(argument, sizeof(lock), &lock) == sizeof(lock);
  if (known && lock.l_type == F_WRLCK && (lock.l_whence != SEEK_SET || lock.l_start != 0 || lock.l_len != 0)) {
    note_lock_of_part(descriptor);
  }
  if (served_mappings() == nullptr || !known) {
    return call();
  }
  return around_lock(descriptor, lock_of(lock), call);
}

}  // namespace

TIERMAP_EXPORTED int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_at(AT_FDCWD, path, flags, mode);
}
TIERMAP_EXPORTED int open64(const char* path, int flags, ...) __attribute__((alias("open")));
TIERMAP_EXPORTED int openat(int directory, const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const mode_t mode = takes_mode(flags) ? va_arg(more, mode_t) : 0;
  va_end(more);
  return open_at(directory, path, flags, mode);
}
TIERMAP_EXPORTED int openat64(int directory, const char* path, int flags, ...) __attribute__((alias("openat")));
TIERMAP_EXPORTED int creat(const char* path, mode_t mode) {
  return open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}
TIERMAP_EXPORTED int creat64(const char* path, mode_t mode) __attribute__((alias("creat")));
// What the compiler makes of calls without a mode.
// NOLINTBEGIN(bugprone-reserved-identifier): the C library and the linker chose these names.
TIERMAP_EXPORTED int __open_2(const char* path, int flags) {
  return open_at(AT_FDCWD, path, flags, 0);
}
TIERMAP_EXPORTED int __open64_2(const char* path, int flags) __attribute__((alias("__open_2")));
TIERMAP_EXPORTED int __openat_2(int directory, const char* path, int flags) {
  return open_at(directory, path, flags, 0);
}
TIERMAP_EXPORTED int __openat64_2(int directory, const char* path, int flags) __attribute__((alias("__openat_2")));
// NOLINTEND(bugprone-reserved-identifier)

TIERMAP_EXPORTED int close(int descriptor) {
  if (next_calls().close == nullptr) {
    return static_cast<int>(::syscall(SYS_close, descriptor));
  }
  if (owner_of(descriptor) != nullptr) {
    return refuse(EBADF);
  }
  before_closing(descriptor);
  Mappings* mappings = mappings_for_caller();
  if (mappings == nullptr || (!mappings->has_retired() && !mappings->record_locked().any())) {
    return next_calls().close(descriptor);
  }
  struct stat status = {};
  const bool known = mappings->owned_by_caller() && tiermap::preload::kernel::status(descriptor, &status) == 0;
  const FileIdentity file = FileIdentity::of(status);
  if (known) {
    mappings->record_locked().remove(file);
  }
  const int result = next_calls().close(descriptor);
  const int error = errno;
  if (known && result == 0 && mappings->has_retired()) {
    mappings->release_retired(file);
  }
  errno = error;
  return result;
}
TIERMAP_EXPORTED int unshare(int flags) noexcept {
  if ((flags & CLONE_FILES) != 0) {
    before_own_table();
  }
  if ((flags & (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)) != 0) {
    before_alone();
  }
  return static_cast<int>(::syscall(SYS_unshare, flags));
}
TIERMAP_EXPORTED int setns(int descriptor, int kinds) noexcept {
  if (kinds == 0 || (kinds & (CLONE_NEWUSER | CLONE_NEWNS)) != 0) {
    before_alone();
  }
  return static_cast<int>(::syscall(SYS_setns, descriptor, kinds));
}
TIERMAP_EXPORTED int close_range(unsigned first, unsigned last, int flags) noexcept {
  return close_range_but_own(first, last, flags);
}
TIERMAP_EXPORTED void closefrom(int first) noexcept {
  close_range_but_own(first < 0 ? 0 : static_cast<unsigned>(first), ~0U, 0);
}
TIERMAP_EXPORTED int dup2(int from, int to) noexcept {
  return replace_descriptor(from, to, [&] { return static_cast<int>(::syscall(SYS_dup2, from, to)); });
}
TIERMAP_EXPORTED int dup3(int from, int to, int flags) noexcept {
  return replace_descriptor(from, to, [&] { return static_cast<int>(::syscall(SYS_dup3, from, to, flags)); });
}

TIERMAP_EXPORTED int fcntl(int descriptor, int command, ...) {
  va_list more;
  va_start(more, command);
  void* argument = va_arg(more, void*);
  va_end(more);
  return control(descriptor, command, argument);
}
TIERMAP_EXPORTED int fcntl64(int descriptor, int command, ...) __attribute__((alias("fcntl")));
TIERMAP_EXPORTED int lockf(int descriptor, int command, off_t length) {
  note_record_lock(descriptor);
  const auto call = [&] { return next_calls().lockf(descriptor, command, length); };
  if (command != F_ULOCK && command != F_TEST && (length != 0 || tiermap::preload::position_of(descriptor) != 0)) {
    note_lock_of_part(descriptor);
  }
  return command == F_TEST ? call() : around_lock(descriptor, command == F_ULOCK ? Lock::none : Lock::exclusive, call);
}
TIERMAP_EXPORTED int lockf64(int descriptor, int command, off_t length) __attribute__((alias("lockf")));
TIERMAP_EXPORTED int flock(int descriptor, int operation) noexcept {
  if (Mappings* mappings = mappings_for_caller()) {
    mappings->note_lock();
  }
  const Lock lock = (operation & LOCK_EX) != 0   ? Lock::exclusive
                    : (operation & LOCK_SH) != 0 ? Lock::shared
                                                 : Lock::none;
  return around_lock(descriptor, lock, [&] { return static_cast<int>(::syscall(SYS_flock, descriptor, operation)); });
}

/// A call that the program makes by its number: one of those that numbered_calls.cpp knows.
extern "C" __attribute__((visibility("hidden"))) long tiermap_call_by_number(long number, long first, long second,
                                                                             long third) {
  switch (number) {
    case SYS_close:
      return close(static_cast<int>(first));
    case SYS_close_range:
      return close_range(static_cast<unsigned>(first), static_cast<unsigned>(second), static_cast<int>(third));
    case SYS_dup3:
      return dup3(static_cast<int>(first), static_cast<int>(second), static_cast<int>(third));
    default:
      return dup2(static_cast<int>(first), static_cast<int>(second));
  }
}
