// The interpreter's lock given up while C++ works: unlike nanobind's own guard at peace with the interpreter's end.
#pragma once

#include <nanobind/nanobind.h>

namespace tiermap::python {

/// Gives the lock up, and takes it again at its end. A daemon thread that wants the lock again when the interpreter has
/// begun to end is unwound by Python up to its first frame, which C++ frames between do not survive. So from
/// end_releases() on the lock is kept.
class ReleasedGil {
 public:
  ReleasedGil() noexcept;
  ~ReleasedGil();
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

/// Called at exit, by the thread that ends the interpreter: waits until no thread is without the lock in here (some
/// seconds at most).
void end_releases();

/// In a forked child: the threads that were without the lock are not here.
void forget_releases() noexcept;

}  // namespace tiermap::python
