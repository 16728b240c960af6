#include "region/c_errors.hpp"

#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace tiermap {
namespace {

struct KeptError {
  std::string text;
  const char* shown = "";  ///< `text`, or a literal when there is no memory for one.
};

KeptError& of_this_thread() noexcept {
  thread_local KeptError kept;
  return kept;
}

void keep(int error_number, const char* text) noexcept {
  KeptError& kept = of_this_thread();
  try {
    kept.text = text;
    kept.shown = kept.text.c_str();
  } catch (...) {
    kept.shown = "out of memory";
  }
  errno = error_number > 0 ? error_number : EIO;
}

}  // namespace

void keep_current_exception() noexcept {
  try {
    throw;
  } catch (const std::system_error& error) {
    keep(error.code().value(), error.what());
  } catch (const std::bad_alloc&) {
    keep(ENOMEM, "out of memory: close something, or give the cache less");
  } catch (const std::exception& error) {
    keep(EIO, error.what());
  } catch (...) {
    keep(EIO, "something failed that has no name");
  }
}

const char* kept_error() noexcept {
  return of_this_thread().shown;
}

}  // namespace tiermap
