// How a wire is driven: who polls UCX, and what is sent when.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "cluster/wire/pending_call.hpp"
#include "cluster/wire/ucx_connection.hpp"
#include "cluster/wire/wire_worker.hpp"
#include "platform/clock.hpp"

namespace tiermap {
namespace {

/// How long to poll for what may come before sleeping: some round trips of a fast network.
constexpr std::uint64_t poll_nanoseconds = 50'000;
/// While waiters poll, the thread looks so often whether they still do.
constexpr std::int64_t look_nanoseconds = 200'000;
constexpr unsigned most_rounds = 64;
/// For which a waiter hopes that the thread lets it poll.
constexpr std::uint64_t hope_nanoseconds = 50'000;
/// Messages up to the first size share a frame, which grows to the second.
constexpr std::size_t small_message_bytes = 16 << 10;
constexpr std::size_t frame_bytes = 64 << 10;
/// Of what has come, for which a waiter leaves the rest lying. Of small messages many at once cost less.
constexpr std::uint64_t much_bytes = 64 << 10;

/// What the header and everything on top may be.
std::size_t largest_frame(const WireOptions& options) noexcept {
  return options.largest_body + message_header_bytes + frame_bytes;
}

}  // namespace

bool WireWorker::as_driver(const std::function<void(const Driving&)>& body) {
  if (is_driver()) {
    body(Driving());
    return true;
  }
  if (!is_here()) {
    return false;
  }
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    if (!shut_down_) {
      driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
      body(Driving());
      if (!shut_down_) {
        send_outbox(Driving());
      }
      driver_.store(std::thread::id(), std::memory_order_relaxed);
      done = true;
    }
  }
  send_what_is_left();
  return done;
}

void WireWorker::post(const std::shared_ptr<UcxConnection>& connection, SealedMessage message) {
  if (!is_here()) {
    return;
  }
  {
    const std::lock_guard lock(outbox_lock_);
    outbox_.push_back({connection, std::move(message)});
    outbox_filled_.store(true);
  }
  if (!is_driver()) {
    send_what_is_left();
  }
}

/// Whoever holds the mutex looks at the outbox once more after releasing it, so that nothing is left lying.
void WireWorker::send_what_is_left() {
  while (outbox_filled_.load() && mutex_.try_lock()) {
    const std::lock_guard lock(mutex_, std::adopt_lock);
    if (shut_down_) {
      return;
    }
    driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    send_outbox(Driving());
    driver_.store(std::thread::id(), std::memory_order_relaxed);
  }
}

void WireWorker::send_outbox(const Driving& driving) {
  while (outbox_filled_.load()) {
    std::vector<Outgoing> outgoing;
    {
      const std::lock_guard lock(outbox_lock_);
      outgoing.swap(outbox_);
      outbox_filled_.store(false);
    }
    for (std::size_t first = 0; first < outgoing.size();) {
      UcxConnection& connection = *outgoing[first].connection;
      std::size_t bytes = outgoing[first].message.length;
      std::size_t behind = first + 1;
      while (behind < outgoing.size() && outgoing[behind].connection == outgoing[first].connection &&
             outgoing[behind].message.length <= small_message_bytes &&
             bytes + outgoing[behind].message.length <= frame_bytes) {
        bytes += outgoing[behind].message.length;
        ++behind;
      }
      if (behind == first + 1) {
        send_frame(driving, connection, std::move(outgoing[first].message));
      } else {
        SealedMessage frame{std::make_unique_for_overwrite<std::byte[]>(bytes), 0};
        for (std::size_t index = first; index < behind; ++index) {
          const SealedMessage& message = outgoing[index].message;
          std::memcpy(frame.bytes.get() + frame.length, message.bytes.get(), message.length);
          frame.length += message.length;
        }
        send_frame(driving, connection, std::move(frame));
      }
      first = behind;
    }
  }
}

void WireWorker::send_frame(const Driving&, UcxConnection& connection, SealedMessage frame) {
  if (connection.endpoint == nullptr) {
    return;  // It failed meanwhile, and everybody who waits knows.
  }
  ucp_request_param_t parameters{};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  // Never a rendezvous, which would read this process's memory, or write the peer's, by addresses in messages.
  parameters.flags = UCP_AM_SEND_FLAG_EAGER | UCP_AM_SEND_FLAG_REPLY;
  parameters.user_data = frame.bytes.get();
  parameters.cb.send = [](void* request, ucs_status_t, void* bytes) {
    delete[] static_cast<std::byte*>(bytes);
    load_wire_libraries().ucp_request_free(request);
  };
  const ucs_status_ptr_t request =
      libraries_.ucp_am_send_nbx(connection.endpoint, 0, nullptr, 0, frame.bytes.get(), frame.length, &parameters);
  connection.note_sent(now_nanoseconds());
  if (UCS_PTR_IS_PTR(request)) {
    frame.bytes.release();  // NOLINT(bugprone-unused-return-value): the callback has it.
    if (asleep_.load()) {
      libraries_.ucp_worker_signal(worker_);  // It goes on only while somebody drives.
    }
  }
}

unsigned WireWorker::drive(const Driving& driving, const PendingCall* awaited, bool yields) {
  unsigned steps = 0;
  const std::uint64_t before = arrived_bytes_;
  for (unsigned round = 0; round < most_rounds; ++round) {
    const unsigned now = libraries_.ucp_worker_progress(worker_);
    steps += now;
    // Who has what he waits for makes use of it, and asks for more, while the peer is still at the rest.
    const bool enough = awaited != nullptr && awaited->is_done() && arrived_bytes_ - before >= much_bytes;
    if (now == 0 || enough || !arrivals_.empty() || (yields && wanted_.load())) {
      break;
    }
  }
  welcome_arrivals(driving);
  while (!given_up_.empty()) {
    // Not in the midst of UCX's own callbacks.
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
    parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    parameters.user_data = this;
    parameters.cb.send = [](void* request, ucs_status_t, void* worker) {
      --static_cast<WireWorker*>(worker)->closing_;
      load_wire_libraries().ucp_request_free(request);
    };
    const ucp_ep_h endpoint = given_up_.back();
    given_up_.pop_back();
    ++closing_;
    if (!UCS_PTR_IS_PTR(libraries_.ucp_ep_close_nbx(endpoint, &parameters))) {
      --closing_;
    }
  }
  send_outbox(driving);
  return steps;
}

/// False after shut_down(). Returns with `steps` of what came.
bool WireWorker::try_drive(const PendingCall* awaited) {
  unsigned steps = 0;
  {
    const std::lock_guard lock(mutex_);
    if (shut_down_) {
      return false;
    }
    driver_.store(std::this_thread::get_id(), std::memory_order_relaxed);
    steps = drive(Driving(), awaited, awaited == nullptr);
    driver_.store(std::thread::id(), std::memory_order_relaxed);
  }
  send_what_is_left();
  return steps > 0;
}

bool WireWorker::become(Poller poller) noexcept {
  Poller nobody = Poller::nobody;
  return poller_.compare_exchange_strong(nobody, poller);
}

void WireWorker::wake_thread() noexcept {
  wakes_.fetch_add(1);
  futex_wake_one(&wakes_);
  if (asleep_.load()) {
    libraries_.ucp_worker_signal(worker_);
  }
}

/// The thread gives way to a waiter that is the only one.
bool WireWorker::take_over(const PendingCall& call) noexcept {
  bool taken = false;
  if (sleepers_.load() == 0) {
    wanted_.store(true);
    const std::uint64_t end = now_nanoseconds() + hope_nanoseconds;
    while (!taken && !call.is_done() && now_nanoseconds() < end) {
      pause_processor();
      taken = become(Poller::waiter);
    }
    wanted_.store(false);
  }
  return taken;
}

void WireWorker::wait_for(PendingCall& call) {
  if (is_driver() || !is_here()) {
    if (!call.is_done()) {
      call.reply.status = is_here() ? -EDEADLK : -ECONNRESET;
    }
    return;
  }
  if (become(Poller::waiter) || take_over(call)) {
    waiter_polls_.fetch_add(1);
    std::uint64_t quiet_since = now_nanoseconds();
    while (!call.is_done()) {
      const std::uint64_t now = now_nanoseconds();
      if (try_drive(&call)) {
        quiet_since = now;
      } else if (now - quiet_since > poll_nanoseconds) {
        break;
      }
      pause_processor();
    }
    poller_.store(Poller::nobody);
    if (sleepers_.load() == 0 && call.is_done()) {
      return;
    }
  }
  sleepers_.fetch_add(1);
  if (poller_.load() != Poller::waiter) {
    wake_thread();
  }
  while (!call.is_done()) {
    futex_wait(&call.done, 0);
  }
  sleepers_.fetch_sub(1);
}

void WireWorker::run() {
  std::uint32_t polls_before = waiter_polls_.load();
  while (!stopping_.load()) {
    const std::uint32_t wakes = wakes_.load();
    if (sleepers_.load() == 0 && waiter_polls_.load() != polls_before) {
      // A thread that waits for one reply after the other does this one's work.
      polls_before = waiter_polls_.load();
      futex_wait(&wakes_, wakes, look_nanoseconds);
    } else if (become(Poller::thread)) {
      poll_until_quiet();
      poller_.store(Poller::nobody);
      if (!stopping_.load()) {
        sleep_until_something_comes();
      }
    } else {
      futex_wait(&wakes_, wakes, look_nanoseconds);
    }
    tick();
  }
}

void WireWorker::poll_until_quiet() {
  std::uint64_t quiet_since = now_nanoseconds();
  while (!stopping_.load()) {
    const std::uint64_t now = now_nanoseconds();
    if (try_drive(nullptr)) {
      quiet_since = now;
    } else if (now - quiet_since > poll_nanoseconds) {
      return;
    }
    if (wanted_.load() && sleepers_.load() == 0) {
      return;
    }
    if (now >= next_tick_.load()) {
      tick();
    }
    pause_processor();
  }
}

void WireWorker::sleep_until_something_comes() {
  const std::uint32_t wakes = wakes_.load();
  asleep_.store(true);
  bool armed = false;
  {
    const std::lock_guard lock(mutex_);
    armed = libraries_.ucp_worker_arm(worker_) == UCS_OK;
  }
  // What was posted before `asleep_` was seen has been sent, or is somebody's who drives.
  if (armed && !outbox_filled_.load() && wakes_.load() == wakes && !stopping_.load()) {
    const std::uint64_t now = now_nanoseconds();
    const std::uint64_t tick_at = next_tick_.load();
    const std::uint64_t left = tick_at > now ? (tick_at - now) / 1'000'000U + 1 : 0;
    pollfd descriptor{event_descriptor_, POLLIN, 0};
    ::poll(&descriptor, 1, static_cast<int>(left));
  }
  asleep_.store(false);
}

void WireWorker::tick_soon() noexcept {
  next_tick_.store(0);
  wake_thread();
}

void WireWorker::tick() {
  constexpr std::uint64_t least = 1'000'000;
  constexpr std::uint64_t most = 100'000'000;
  const std::uint64_t now = now_nanoseconds();
  if (now < next_tick_.load()) {
    return;
  }
  as_driver([&](const Driving& driving) {
    std::uint64_t every = std::min(timeout_nanoseconds() / 32, most);
    std::vector<std::shared_ptr<UcxConnection>> all;
    drive(driving);  // What this process had no time for is not the peers' silence.
    forget_who_does_not_come(now);
    for (const auto& [endpoint, connection] : connections_) {
      all.push_back(connection);
    }
    for (const auto& connection : all) {
      connection->tick(driving, now);
      every = std::min(every, connection->ping_every() / 2);
    }
    next_tick_.store(now + std::max(every, least));
    drive(driving);
  });
}

ucs_status_t WireWorker::arrive(ucp_ep_h endpoint, const void* data, std::size_t bytes, bool whole) {
  const auto found = connections_.find(endpoint);
  if (found == connections_.end()) {
    if (whole) {
      take_arrival(endpoint, {static_cast<const std::byte*>(data), bytes});
    }
    return UCS_OK;
  }
  const std::shared_ptr<UcxConnection> connection = found->second;
  if (!whole || bytes > largest_frame(options_)) {
    connection->fail(Driving(), EPROTO, "sent more than " + std::to_string(largest_frame(options_)) + " bytes at once");
    return UCS_OK;
  }
  arrived_bytes_ += bytes;
  const std::shared_ptr<std::byte[]> frame = frames_->take(bytes);
  std::memcpy(frame.get(), data, bytes);
  connection->arrive(Driving(), frame, bytes);
  return UCS_OK;
}

ucs_status_t WireWorker::on_frame(void* worker, const void*, std::size_t, void* data, std::size_t bytes,
                                  const ucp_am_recv_param_t* parameters) {
  const bool whole = (parameters->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
  const bool known = (parameters->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) != 0;
  return known ? static_cast<WireWorker*>(worker)->arrive(parameters->reply_ep, data, bytes, whole) : UCS_OK;
}

}  // namespace tiermap
