// The exceptions that Tiermap throws. Each is a std::system_error whose what() is one line: what failed, on which
// value, and what to do.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace tiermap {

/// Base of all. code() carries an errno value.
class Error : public std::system_error {
 public:
  Error(int error_number, const std::string& message);
  /// The whole message in one line, without the text of the errno value.
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

/// A value that cannot be used: page size, budget, offset, unknown name. errno EINVAL unless said.
class OptionError : public Error {
 public:
  explicit OptionError(const std::string& message, int error_number = EINVAL) : Error(error_number, message) {}
};

/// A store that cannot be opened, read, written, or is not what its metadata says.
class StoreError : public Error {
 public:
  using Error::Error;
};

/// The machine refuses what was asked: userfaultfd, memory, address space.
class PlatformError : public Error {
 public:
  using Error::Error;
};

}  // namespace tiermap
