// Streams of stdio read and write inside the C library, where nobody else sees it: a file that one is open on is not
// served as far as that matters.
#include <dlfcn.h>
#include <errno.h>
#include <sys/stat.h>

#include "preload/kernel_calls.hpp"
#include "preload/library.hpp"

using tiermap::preload::FileIdentity;
using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;

namespace {

void note(Mappings& mappings, int descriptor, int change) {
  const int saved = errno;
  struct stat status = {};
  if (descriptor >= 0 && tiermap::preload::kernel::status(descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
      mappings.owned_by_caller()) {
    const auto mode = static_cast<int>(::syscall(SYS_fcntl, descriptor, F_GETFL));
    mappings.note_stream(FileIdentity::of(status), (mode & O_ACCMODE) != O_RDONLY, change);
  }
  errno = saved;
}

FILE* opened(FILE* stream) {
  Mappings* mappings = mappings_for_caller();
  if (mappings != nullptr && stream != nullptr) {
    note(*mappings, ::fileno(stream), 1);
  }
  return stream;
}

/// Before a stream is opened for writing, and perhaps cuts the file: what is served of it goes back to the kernel.
void before_opening(const char* path, const char* mode) {
  Mappings* mappings = mappings_for_caller();
  if (mappings == nullptr || mappings->served().empty() || path == nullptr || mode == nullptr || mode[0] == 'r') {
    return;
  }
  const int saved = errno;
  struct stat status = {};
  if (::stat(path, &status) == 0 && mappings->served().hold(FileIdentity::of(status), false) &&
      mappings->owned_by_caller()) {
    mappings->note_stream(FileIdentity::of(status), true, 1);
    mappings->note_stream(FileIdentity::of(status), true, -1);
  }
  errno = saved;
}

/// A stream that ends: its last bytes are written by the C library before this returns.
template <typename Call>
auto around_end(FILE* stream, Call call) {
  if (Mappings* mappings = mappings_for_caller(); mappings != nullptr && stream != nullptr) {
    note(*mappings, ::fileno(stream), -1);
  }
  return call();
}

}  // namespace

TIERMAP_EXPORTED FILE* fopen(const char* path, const char* mode) {
  before_opening(path, mode);
  static const auto next = reinterpret_cast<decltype(&::fopen)>(::dlsym(RTLD_NEXT, "fopen"));
  return opened(next(path, mode));
}
TIERMAP_EXPORTED FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
TIERMAP_EXPORTED FILE* fdopen(int descriptor, const char* mode) noexcept {
  static const auto next = reinterpret_cast<decltype(&::fdopen)>(::dlsym(RTLD_NEXT, "fdopen"));
  return opened(next(descriptor, mode));
}
TIERMAP_EXPORTED FILE* freopen(const char* path, const char* mode, FILE* stream) {
  before_opening(path, mode);
  static const auto next = reinterpret_cast<decltype(&::freopen)>(::dlsym(RTLD_NEXT, "freopen"));
  return opened(around_end(stream, [&] { return next(path, mode, stream); }));
}
TIERMAP_EXPORTED FILE* freopen64(const char* path, const char* mode, FILE* stream) __attribute__((alias("freopen")));
TIERMAP_EXPORTED FILE* tmpfile() {
  static const auto next = reinterpret_cast<decltype(&::tmpfile)>(::dlsym(RTLD_NEXT, "tmpfile"));
  return opened(next());
}
TIERMAP_EXPORTED FILE* tmpfile64() __attribute__((alias("tmpfile")));
TIERMAP_EXPORTED int fclose(FILE* stream) {
  static const auto next = reinterpret_cast<decltype(&::fclose)>(::dlsym(RTLD_NEXT, "fclose"));
  return around_end(stream, [&] { return next(stream); });
}
