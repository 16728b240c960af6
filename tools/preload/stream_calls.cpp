// Streams of stdio read and write inside the C library, where nobody else sees it: a file that one is open on is not
// served as far as that matters.
#include <errno.h>
#include <sys/stat.h>

#include "preload/kernel_calls.hpp"
#include "preload/library.hpp"
#include "preload/next_call.hpp"

using tiermap::FileIdentity;
using tiermap::preload::Mappings;
using tiermap::preload::mappings_for_caller;
using tiermap::preload::NextCall;

namespace {

/// The regular file behind a stream, if there is one; errno stays.
struct StreamFile {
  FileIdentity file;
  bool writes = false;
  bool known = false;

  explicit StreamFile(FILE* stream) noexcept {
    const int saved = errno;
    const int descriptor = stream == nullptr ? -1 : ::fileno(stream);
    struct stat status = {};
    if (descriptor >= 0 && tiermap::preload::kernel::status(descriptor, &status) == 0 && S_ISREG(status.st_mode)) {
      file = FileIdentity::of(status);
      writes = (static_cast<int>(::syscall(SYS_fcntl, descriptor, F_GETFL)) & O_ACCMODE) != O_RDONLY;
      known = true;
    }
    errno = saved;
  }
  void note(Mappings& mappings, int change) const {
    const int saved = errno;
    if (known && mappings.owned_by_caller()) {
      mappings.note_stream(file, writes, change);
    }
    errno = saved;
  }
};

FILE* opened(FILE* stream) {
  if (Mappings* mappings = mappings_for_caller(); mappings != nullptr && stream != nullptr) {
    StreamFile(stream).note(*mappings, 1);
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
  Mappings* mappings = mappings_for_caller();
  if (mappings == nullptr) {
    return call();
  }
  const StreamFile ending(stream);
  const auto result = call();
  ending.note(*mappings, -1);
  return result;
}

}  // namespace

TIERMAP_EXPORTED FILE* fopen(const char* path, const char* mode) {
  before_opening(path, mode);
  static constinit NextCall<decltype(::fopen)> next("fopen");
  return opened(next(path, mode));
}
TIERMAP_EXPORTED FILE* fopen64(const char* path, const char* mode) __attribute__((alias("fopen")));
TIERMAP_EXPORTED FILE* fdopen(int descriptor, const char* mode) noexcept {
  static constinit NextCall<decltype(::fdopen)> next("fdopen");
  return opened(next(descriptor, mode));
}
TIERMAP_EXPORTED FILE* freopen(const char* path, const char* mode, FILE* stream) {
  before_opening(path, mode);
  static constinit NextCall<decltype(::freopen)> next("freopen");
  return opened(around_end(stream, [&] { return next(path, mode, stream); }));
}
TIERMAP_EXPORTED FILE* freopen64(const char* path, const char* mode, FILE* stream) __attribute__((alias("freopen")));
TIERMAP_EXPORTED FILE* tmpfile() {
  static constinit NextCall<decltype(::tmpfile)> next("tmpfile");
  return opened(next());
}
TIERMAP_EXPORTED FILE* tmpfile64() __attribute__((alias("tmpfile")));
TIERMAP_EXPORTED int fclose(FILE* stream) {
  static constinit NextCall<decltype(::fclose)> next("fclose");
  return around_end(stream, [&] { return next(stream); });
}
