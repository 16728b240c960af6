#include "fault/writers.hpp"

#include <atomic>
#include <exception>
#include <thread>
#include <utility>

#include "platform/engine_thread.hpp"
#include "platform/futex.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
class Writers::Writer {
 public:
  explicit Writer(Pager& pager)
      : write_back_(pager, WriteBack::most_at_once),
        thread_(start_engine_thread("tiermap-write", [this] { serve(); })) {}
  ~Writer() {
    turn(State::ending);
    thread_.join();
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void run(const std::function<void(WriteBack&)>& work) {
    work_ = &work;
    turn(State::working);
    wait_while(State::working);
    if (const std::exception_ptr failure = std::exchange(failure_, nullptr); failure != nullptr) {
      std::rethrow_exception(failure);
    }
  }

 private:
  enum class State : std::uint32_t { idle, working, ending };

  void turn(State state) noexcept {
    state_.store(state, std::memory_order_release);
    futex_wake_all(&state_);
  }
  State wait_while(State state) noexcept {
    State now = state_.load(std::memory_order_acquire);
    for (; now == state; now = state_.load(std::memory_order_acquire)) {
      futex_wait(&state_, static_cast<std::uint32_t>(state));
    }
    return now;
  }
  void serve() noexcept {
    while (wait_while(State::idle) == State::working) {
      try {
        (*work_)(write_back_);
      } catch (...) {
        failure_ = std::current_exception();
      }
      turn(State::idle);
    }
  }

  WriteBack write_back_;
  const std::function<void(WriteBack&)>* work_ = nullptr;
  std::exception_ptr failure_;
  std::atomic<State> state_{State::idle};
  std::thread thread_;
};

Writers::Writers(Pager& pager) : pager_(pager) {}

Writers::~Writers() = default;

// Null if there can be no thread more.
Writers::Writer* Writers::take() {
  const SignalsBlocked quiet;
  const std::lock_guard held(mutex_);
  if (!idle_.empty()) {
    Writer* const writer = idle_.back();
    idle_.pop_back();
    return writer;
  }
  try {
    idle_.reserve(writers_.size() + 1);
    writers_.push_back(std::make_unique<Writer>(pager_));
    return writers_.back().get();
  } catch (const PlatformError&) {
    return nullptr;
  }
}

void Writers::put_back(Writer& writer) {
  const SignalsBlocked quiet;
  const std::lock_guard held(mutex_);
  idle_.push_back(&writer);
}

void Writers::run(const std::function<void(WriteBack&)>& work) {
  Writer* const writer = take();
  if (writer == nullptr) {
    WriteBack alone(pager_, 0);
    return work(alone);
  }
  try {
    writer->run(work);
  } catch (...) {
    put_back(*writer);
    throw;
  }
  put_back(*writer);
}

}  // namespace tiermap
