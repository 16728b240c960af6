// The exceptions that Tiermap throws. Each is a std::system_error whose what() is one line: what failed, on which
// value, and what to do; but for one, which is the std::bad_alloc that containers look for.
#pragma once

#include <cerrno>
#include <new>
#include <stdexcept>
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

/// A heap has no room for what was asked: its capacity is used up.
class HeapFullError : public std::bad_alloc {
 public:
  // NOLINTNEXTLINE(bugprone-throw-keyword-missing): a member, not an exception on its way.
  explicit HeapFullError(const std::string& message) : message_(message) {}
  const char* what() const noexcept override { return message_.what(); }

 private:
  std::runtime_error message_;  ///< A string that can be copied without an exception.
};

}  // namespace tiermap
