// What the library's exported functions stand on: the definitions that they hide, and the mappings.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "preload/mappings.hpp"

namespace tiermap::preload {

/// The next definition of each name, the C library's as a rule: calls that may wait are handed on to it rather than to
/// the kernel, because there a thread can be cancelled. Null until the library is ready.
struct NextCalls {
  decltype(&::read) read;
  decltype(&::pread) pread;
  decltype(&::readv) readv;
  decltype(&::preadv) preadv;
  decltype(&::preadv2) preadv2;
  decltype(&::write) write;
  decltype(&::pwrite) pwrite;
  decltype(&::writev) writev;
  decltype(&::pwritev) pwritev;
  decltype(&::pwritev2) pwritev2;
  decltype(&::fsync) fsync;
  decltype(&::fdatasync) fdatasync;
  decltype(&::close) close;
  decltype(&::copy_file_range) copy_file_range;
  decltype(&::sendfile) sendfile;
  decltype(&::splice) splice;
  decltype(&::openat) openat;
  decltype(&::fcntl) fcntl;
  decltype(&::lockf) lockf;
  decltype(&::posix_fallocate) posix_fallocate;
};
const NextCalls& next_calls() noexcept;

/// The process's mappings. Null until the library is ready, and for a thread that is inside already.
Mappings* mappings_for_caller() noexcept;

/// The same where something is served.
inline Mappings* served_mappings() noexcept {
  Mappings* mappings = mappings_for_caller();
  return mappings == nullptr || mappings->served().empty() ? nullptr : mappings;
}

/// For what the engine itself opens and closes. Null until the library is ready.
OwnDescriptors* descriptors_of_engine() noexcept;

}  // namespace tiermap::preload

/// A function that takes the place of the C library's. The names with 64 are aliases of those without.
#define TIERMAP_EXPORTED extern "C" __attribute__((visibility("default")))
static_assert(sizeof(off_t) == sizeof(off64_t));
