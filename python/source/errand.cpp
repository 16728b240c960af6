#include "errand.hpp"

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "platform/signals_blocked.hpp"
#include "released_gil.hpp"

namespace tiermap::python {
namespace {

/// Signals are looked for so often.
constexpr std::chrono::milliseconds patience{50};

/// One call, of which both the thread that does it and the one that waits for it have a share.
struct Errand {
  std::function<void()> work;
  std::function<void()> undo;
  std::mutex mutex;
  std::condition_variable changed;
  std::exception_ptr error;  // This and what follows are guarded by the mutex.
  bool done = false;
  bool given_up = false;

  void perform() noexcept {
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(mutex);
    error = failure;
    done = true;
    if (given_up && failure == nullptr) {
      undo();
    }
    changed.notify_all();
  }

  bool is_done_soon() {
    const ReleasedGil released;
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, patience, [this] { return done; });
  }

  void give_up() {
    const std::lock_guard lock(mutex);
    given_up = true;
    if (done && error == nullptr) {
      undo();
    }
  }
};

}  // namespace

void Errands::run(std::function<void()> work, std::function<void()> undo) {
  const auto errand = std::make_shared<Errand>();
  errand->work = std::move(work);
  errand->undo = std::move(undo);
  {
    const SignalsBlocked inherited;  // Signals are for the program's threads.
    under_way_->fetch_add(1);
    try {
      std::thread([errand, under_way = under_way_] {
        errand->perform();
        under_way->fetch_sub(1);
      }).detach();
    } catch (...) {
      under_way_->fetch_sub(1);
      throw;
    }
  }
  while (!errand->is_done_soon()) {
    if (PyErr_CheckSignals() != 0) {
      errand->give_up();
      throw nanobind::python_error();
    }
  }
  if (errand->error != nullptr) {
    std::rethrow_exception(errand->error);
  }
}

void Errands::wait() const noexcept {
  while (under_way_->load() > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace tiermap::python
