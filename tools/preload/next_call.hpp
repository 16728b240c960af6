// The C library's function of a name that this library has taken.
#pragma once

#include <dlfcn.h>

#include <atomic>

namespace tiermap::preload {

/// Looked up at the first call. No static of a function's that is made then: of one that is being made at a fork the
/// child would wait for the end, and who makes it is not there.
template <typename Function>
class NextCall {
 public:
  constexpr explicit NextCall(const char* name) noexcept : name_(name) {}

  Function* get() noexcept {
    Function* found = found_.load(std::memory_order_relaxed);
    if (found == nullptr) {
      found = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name_));
      found_.store(found, std::memory_order_relaxed);
    }
    return found;
  }
  template <typename... Arguments>
  auto operator()(Arguments... arguments) {
    return get()(arguments...);
  }

 private:
  const char* const name_;
  std::atomic<Function*> found_{nullptr};
};

}  // namespace tiermap::preload
