// Owns one open file descriptor.
#pragma once

#include <unistd.h>

#include <utility>

#include "platform/own_descriptor.hpp"

namespace tiermap {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  /// Takes over `descriptor`; a negative one means none. Another number may be given to it.
  explicit FileDescriptor(int descriptor) : descriptor_(above_standard_streams(descriptor)) {}
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileDescriptor() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }

  int get() const noexcept { return descriptor_; }
  bool valid() const noexcept { return descriptor_ >= 0; }
  /// Gives the descriptor up; the caller closes it.
  int release() noexcept { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

}  // namespace tiermap
