// How a thread of the program enters Mappings: its flag up, so that what it calls goes to the kernel, its signals held
// back, so that no handler meets a lock that its own thread holds, and the lock taken. Signals are let in last of all:
// a handler may call anything, end the process, or jump out and never come back.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "platform/signals_blocked.hpp"
#include "preload/mappings.hpp"

namespace tiermap::preload {

class Changing {
 public:
  explicit Changing(WriterFirstMutex& lock) : held_(lock) {}

 private:
  const SignalsBlocked quiet_;
  const Inside inside_;
  const std::unique_lock<WriterFirstMutex> held_;
};

class Looking {
 public:
  explicit Looking(WriterFirstMutex& lock) : held_(lock) {}

 private:
  const SignalsBlocked quiet_;
  const Inside inside_;
  const std::shared_lock<WriterFirstMutex> held_;
};

}  // namespace tiermap::preload
