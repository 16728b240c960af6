// From C++ exceptions to what the C interface gives: -1 or NULL, errno, and a line of text for each thread.
#pragma once

#include <cerrno>
#include <utility>

namespace tiermap {

/// Sets errno and the thread's text from the exception that is being handled. Call it in a catch block only.
void keep_current_exception() noexcept;

/// The text of the last failure in this thread; "" if there was none.
const char* kept_error() noexcept;

/// Calls `body` and returns what it returns, or `failure` with errno and the text set. Leaves errno alone on success.
template <typename Result, typename Body>
Result without_exceptions(Result failure, Body&& body) noexcept {
  const int before = errno;
  try {
    Result result = std::forward<Body>(body)();
    errno = before;
    return result;
  } catch (...) {
    keep_current_exception();
    return failure;
  }
}

}  // namespace tiermap
