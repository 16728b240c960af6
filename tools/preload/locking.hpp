// How a thread of the program enters Mappings: its flag up, so that what it calls goes to the kernel, its signals held
// back, so that no handler meets a lock that its own thread holds, and the lock taken.
#pragma once

#include <mutex>
#include <shared_mutex>

#include "platform/signals_blocked.hpp"
#include "preload/mappings.hpp"

namespace tiermap::preload {

class Changing {
 public:
  explicit Changing(std::shared_mutex& lock) : held_(lock) {}

 private:
  const Inside inside_;
  const SignalsBlocked quiet_;
  const std::unique_lock<std::shared_mutex> held_;
};

class Looking {
 public:
  explicit Looking(std::shared_mutex& lock) : held_(lock) {}

 private:
  const Inside inside_;
  const SignalsBlocked quiet_;
  const std::shared_lock<std::shared_mutex> held_;
};

}  // namespace tiermap::preload
