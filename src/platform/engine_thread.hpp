// Threads of the engine: named, and deaf to signals, which are the program's.
#pragma once

#include <pthread.h>

#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#include "platform/clock.hpp"
#include "platform/signals_blocked.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

/// Starts a thread with every asynchronous signal blocked. `name` has at most 15 characters. Throws PlatformError.
template <typename Body>
std::thread start_engine_thread(const char* name, Body&& body) {
  const SignalsBlocked inherited;  // A new thread starts with its creator's mask.
  try {
    // By both: the library that `tiermap run` preloads knows these threads by name as they begin, and whoever has
    // started one finds it by that.
    std::thread thread([own_name = std::string(name), work = std::decay_t<Body>(std::forward<Body>(body))]() mutable {
      pthread_setname_np(pthread_self(), own_name.c_str());
      work();
    });
    pthread_setname_np(thread.native_handle(), name);
    return thread;
  } catch (const std::system_error& error) {
    throw PlatformError(error.code().value(), "cannot start the thread " + std::string(name) +
                                                  ": raise the limit of threads (ulimit -u), or of memory");
  }
}

/// Does `work` in a thread that lasts no longer, for what must not be done in a thread of the program; what it throws
/// is thrown here. Throws PlatformError if there can be no thread.
template <typename Work>
void do_in_engine_thread(const char* name, Work&& work) {
  const CancellationHeld held;  // join() is where a thread can be cancelled, and `work` may be on its stack.
  std::exception_ptr failure;
  start_engine_thread(name, [&] {
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }).join();
  if (failure != nullptr) {
    std::rethrow_exception(failure);
  }
}

}  // namespace tiermap
