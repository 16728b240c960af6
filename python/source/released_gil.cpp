#include "released_gil.hpp"

#include <time.h>

#include <atomic>

namespace tiermap::python {
namespace {

std::atomic<int> under_way{0};
std::atomic<bool> ended{false};

}  // namespace

ReleasedGil::ReleasedGil() noexcept {
  // The lock is held here, so nobody ends releases in between.
  if (!ended.load()) {
    under_way.fetch_add(1);
    state_ = PyEval_SaveThread();
  }
}

ReleasedGil::~ReleasedGil() {
  if (state_ != nullptr) {
    PyEval_RestoreThread(state_);
    under_way.fetch_sub(1);
  }
}

void end_releases() {
  ended.store(true);
  PyThreadState* const state = PyEval_SaveThread();
  constexpr int most_milliseconds = 10'000;
  for (int waited = 0; under_way.load() > 0 && waited < most_milliseconds; ++waited) {
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  PyEval_RestoreThread(state);
}

void forget_releases() noexcept {
  under_way.store(0);
}

}  // namespace tiermap::python
