// Threads of the engine: named, and deaf to signals, which are the program's.
#pragma once

#include <pthread.h>

#include <thread>
#include <utility>

#include "platform/clock.hpp"
#include "platform/signals_blocked.hpp"

namespace tiermap {

/// Starts a thread with every asynchronous signal blocked. `name` has at most 15 characters.
template <typename Body>
std::thread start_engine_thread(const char* name, Body&& body) {
  const SignalsBlocked inherited;  // A new thread starts with its creator's mask.
  std::thread thread(std::forward<Body>(body));
  pthread_setname_np(thread.native_handle(), name);
  return thread;
}

}  // namespace tiermap
