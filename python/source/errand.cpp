#include "errand.hpp"

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "platform/signals_blocked.hpp"
#include "released_gil.hpp"
#include "tiermap/error.hpp"

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

  /// In a forked child: the mutex may be held for ever.
  bool was_done() {
    const std::unique_lock lock(mutex, std::try_to_lock);
    return lock.owns_lock() && done;
  }

  void give_up() {
    const std::lock_guard lock(mutex);
    given_up = true;
    if (done && error == nullptr) {
      undo();
    }
  }
};

/// In a thread of its own. False if none is to be had.
bool start(const std::shared_ptr<Errand>& errand, const std::shared_ptr<std::atomic<int>>& under_way) {
  const SignalsBlocked inherited;  // Signals are for the program's threads.
  under_way->fetch_add(1);
  try {
    std::thread([errand, under_way] {
      errand->perform();
      under_way->fetch_sub(1);
    }).detach();
    return true;
  } catch (const std::system_error&) {
    under_way->fetch_sub(1);
    return false;
  }
}

}  // namespace

void Errands::run(std::function<void()> work, std::function<void()> undo) {
  const auto errand = std::make_shared<Errand>();
  errand->work = std::move(work);
  errand->undo = std::move(undo);
  if (!start(errand, under_way_)) {  // Then nothing ends the waiting.
    const ReleasedGil released;
    errand->perform();
  }
  const pid_t owner = ::getpid();
  while (!errand->is_done_soon()) {
    const bool interrupted = PyErr_CheckSignals() != 0;
    const bool forked = ::getpid() != owner;  // By the handler: whoever does this is not here.
    if (interrupted && !forked) {
      errand->give_up();
    }
    if (interrupted) {
      throw nanobind::python_error();
    }
    if (forked && !errand->was_done()) {
      throw StoreError(ECHILD, "what the store was asked for is done by the parent of this forked child: ask again");
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
