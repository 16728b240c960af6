#include "cluster/wire/ucx_connection.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <thread>

#include "config/size.hpp"
#include "platform/clock.hpp"

namespace tiermap {
namespace {

/// What is longer than anything runs is counted as that, so that the sum of a moment and it is one, too.
std::uint64_t nanoseconds(std::chrono::milliseconds time) noexcept {
  constexpr std::chrono::milliseconds longest = std::chrono::years(100);
  return static_cast<std::uint64_t>(std::clamp(time, std::chrono::milliseconds(0), longest).count()) * 1'000'000U;
}

/// 0: none.
std::uint64_t deadline_after(std::uint64_t patience) noexcept {
  return patience == 0 ? 0 : now_nanoseconds() + patience;
}

/// What a request's number is on the wire: a few bits that are changed there make it one that was never asked, and not
/// that of another request.
constexpr std::uint64_t number_factor = 0x9E37'79B9'7F4A'7C15U;
constexpr std::uint64_t number_factor_inverse = 0xF1DE'83E1'9937'733DU;
static_assert(number_factor * number_factor_inverse == 1);

/// What goes by the shorter of both ends' timeouts.
std::uint64_t pings_of(std::uint64_t own_nanoseconds, std::uint64_t peer_milliseconds) noexcept {
  return std::min(own_nanoseconds, std::clamp<std::uint64_t>(peer_milliseconds, 10, 3'600'000) * 1'000'000U) / 4;
}

}  // namespace

UcxConnection::UcxConnection(std::shared_ptr<WireWorker> worker, std::string peer, Side side, Introduced introduced)
    : worker_(std::move(worker)),
      peer_(std::move(peer)),
      side_(side),
      user_(std::move(introduced.user)),
      ticket_(introduced.ticket),
      opened_(std::make_shared<PendingCall>()),
      largest_body_(introduced.largest_body),
      last_heard_(now_nanoseconds()),
      last_sent_(last_heard_),
      began_(introduced.began),
      ping_every_(pings_of(worker_->timeout_nanoseconds(), introduced.timeout_milliseconds)) {}

void UcxConnection::post_control(ControlKind kind, const WireWords& words, std::span<const std::byte> body) {
  worker_->post(shared_from_this(), WireMessage::control(kind, words, body).seal(0));
}

void UcxConnection::meet() {
  worker_->tick_soon();
  if (side_ == Side::client) {
    post_control(ControlKind::arrival, {}, ticket_);
  } else {
    post_control(ControlKind::ready, {}, {});
    become_open();
  }
}

void UcxConnection::become_open() {
  stage_ = Stage::open;
  open_.store(true, std::memory_order_release);
  opened_->complete({});
}

void UcxConnection::take_control(const Driving& driving, const ArrivedMessage& message) {
  const auto kind = static_cast<ControlKind>(message.header.kind);
  if (!message.intact) {
    fail(driving, EBADMSG, "sent a message that was damaged on its way");
  } else if (kind == ControlKind::ready && side_ == Side::client && stage_ == Stage::meeting) {
    become_open();
  } else if (kind != ControlKind::ping) {  // That it came is all it says.
    fail(driving, EPROTO, "does not keep to the protocol");
  }
}

// In the child of a fork() another thread of the parent's may have the lock for ever.
std::string UcxConnection::failure() const {
  if (!worker_->is_here()) {
    return "is not reached from a child of fork()";
  }
  const std::lock_guard lock(lock_);
  return failure_;
}

std::uint64_t UcxConnection::add_pending(const std::shared_ptr<PendingCall>& call) {
  const std::lock_guard lock(lock_);
  if (closed_ || pending_.size() >= most_requests_in_flight) {
    return 0;
  }
  pending_.emplace(next_number_, call);
  return next_number_++;
}

std::pair<bool, std::shared_ptr<PendingCall>> UcxConnection::take_pending(std::uint64_t number) {
  const std::lock_guard lock(lock_);
  if (number == 0 || number >= next_number_) {
    return {false, nullptr};
  }
  oldest_answered_ = std::min(oldest_answered_, number);
  const auto found = pending_.find(number);
  if (found == pending_.end()) {
    return {true, nullptr};
  }
  std::shared_ptr<PendingCall> call = std::move(found->second);
  pending_.erase(found);
  return {true, std::move(call)};
}

std::shared_ptr<PendingCall> UcxConnection::make_call(std::optional<std::chrono::milliseconds> patience) const {
  auto call = std::make_shared<PendingCall>();
  call->worker = worker_;
  call->patience = patience.has_value() ? std::max<std::uint64_t>(nanoseconds(*patience), 1) : 0;
  call->deadline = deadline_after(call->patience);
  return call;
}

/// The replies to others make room. Who drives would wait for what he has to bring about himself.
bool UcxConnection::wait_for_room() const {
  constexpr std::chrono::microseconds pause{200};
  if (!open() || !worker_->is_here() || worker_->is_driver()) {
    return false;
  }
  std::this_thread::sleep_for(pause);
  return true;
}

void UcxConnection::send_request(const std::shared_ptr<PendingCall>& call, WireMessage request) {
  if (!worker_->is_here()) {  // Nor is the lock touched, which nobody may give up there.
    call->fail(ECONNRESET);
    return;
  }
  if (request.body().size() > largest_body_) {
    call->fail(EMSGSIZE);
    return;
  }
  std::uint64_t number = add_pending(call);
  while (number == 0 && call->then == nullptr && wait_for_room()) {
    call->deadline = deadline_after(call->patience);  // Until then nothing was asked.
    number = add_pending(call);
  }
  if (number == 0) {
    call->fail(open() ? EAGAIN : ECONNRESET);
    return;
  }
  worker_->post(shared_from_this(), std::move(request).seal(number * number_factor));
}

WireCall UcxConnection::start(WireMessage request, std::optional<std::chrono::milliseconds> patience) {
  auto call = make_call(patience);
  send_request(call, std::move(request));
  return WireCall(std::move(call));
}

WireCall UcxConnection::start(WireMessage request) {
  return start(std::move(request), worker_->options().timeout);
}

void UcxConnection::start_then(WireMessage request, std::optional<std::chrono::milliseconds> patience,
                               std::function<void(WireReply)> done) {
  const auto call = make_call(patience);
  call->then = std::move(done);
  send_request(call, std::move(request));
}

void UcxConnection::answer(std::uint64_t id, WireMessage message) {
  requests_here_.fetch_sub(1);
  if (open()) {
    worker_->post(shared_from_this(), std::move(message).seal(id));
  }
}

void UcxConnection::close(const std::string& reason) {
  worker_->as_driver([&](const Driving& driving) { fail(driving, ECONNRESET, reason); });
}

void UcxConnection::fail(const Driving& driving, int error_number, const std::string& reason) {
  std::unordered_map<std::uint64_t, std::shared_ptr<PendingCall>> waiting;
  {
    const std::lock_guard lock(lock_);
    if (closed_) {
      return;
    }
    closed_ = true;
    failure_ = reason;
    waiting.swap(pending_);
  }
  const bool was_open = open_.exchange(false);
  stage_ = Stage::closed;
  for (auto& [key, rkey] : rkeys_) {
    worker_->libraries().ucp_rkey_destroy(rkey);
  }
  rkeys_.clear();
  worker_->drop(driving, *this);
  for (const auto& [id, call] : waiting) {
    call->fail(error_number);
  }
  if (was_open && worker_->service() != nullptr) {
    worker_->service()->on_closed(shared_from_this());
  } else if (!was_open) {
    opened_->fail(error_number);
  }
  state.reset();
}

void UcxConnection::arrive(const Driving& driving, const std::shared_ptr<const std::byte[]>& frame, std::size_t bytes) {
  heard_ = true;
  last_heard_ = now_nanoseconds();
  std::span<const std::byte> rest(frame.get(), bytes);
  while (!rest.empty() && stage_ != Stage::closed) {
    const std::optional<ArrivedMessage> message = take_message(rest);
    if (!message.has_value()) {
      fail(driving, EPROTO, "sent what is no message of Tiermap's");
      return;
    }
    if (message->header.role == MessageHeader::Role::control) {
      take_control(driving, *message);
    } else if (stage_ != Stage::open || message->body.size() > largest_body_) {
      fail(driving, EPROTO,
           stage_ == Stage::open ? "sent a larger message than was agreed" : "asked before it was ready");
    } else if (message->header.role == MessageHeader::Role::request) {
      take_request(driving, *message, WireBody(frame, message->body));
    } else {
      take_reply(driving, *message, WireBody(frame, message->body));
    }
  }
}

void UcxConnection::take_request(const Driving& driving, const ArrivedMessage& message, WireBody body) {
  if (requests_here_.fetch_add(1) >= most_requests_in_flight) {
    fail(driving, EPROTO, "sent more than " + std::to_string(most_requests_in_flight) + " requests at once");
    return;
  }
  WireRequest request(shared_from_this(), message.header, std::move(body));
  if (!message.intact) {
    request.reply(-EBADMSG);
  } else if (worker_->service() == nullptr) {
    request.reply(-ENOSYS);
  } else {
    try {
      worker_->service()->on_request(std::move(request));
    } catch (...) {  // UCX, which called us, is no C++: the request answers for itself when it goes.
    }
  }
}

void UcxConnection::take_reply(const Driving& driving, const ArrivedMessage& message, WireBody body) {
  const auto [asked, call] = take_pending(message.header.id * number_factor_inverse);
  if (!asked) {  // The number was damaged, here or on the way there: nobody knows who waits for it.
    fail(driving, EBADMSG, "sent a message that was damaged on its way");
    return;
  }
  if (call == nullptr) {
    return;  // Nobody had the patience.
  }
  if (!message.intact) {
    call->fail(EBADMSG);
    return;
  }
  call->complete({message.header.status, message.header.words, std::move(body)});
}

/// Of which the patience is over. Who is still at what was asked before has not come to a request yet.
std::vector<std::shared_ptr<PendingCall>> UcxConnection::take_late(std::uint64_t now) {
  std::vector<std::shared_ptr<PendingCall>> late;
  const std::lock_guard lock(lock_);
  const std::uint64_t answered = std::exchange(oldest_answered_, UINT64_MAX);
  for (auto at = pending_.begin(); at != pending_.end();) {
    PendingCall& call = *at->second;
    if (call.deadline != 0 && at->first > answered) {
      call.deadline = now + call.patience;
    }
    const bool is_late = call.deadline != 0 && now > call.deadline;
    if (is_late) {
      late.push_back(std::move(at->second));
    }
    at = is_late ? pending_.erase(at) : std::next(at);
  }
  return late;
}

void UcxConnection::tick(const Driving& driving, std::uint64_t now) {
  const std::uint64_t timeout = worker_->timeout_nanoseconds();
  const std::string so_long = std::to_string(worker_->options().timeout.count()) + " ms";
  if (stage_ != Stage::open && now > began_ + timeout) {
    fail(driving, ETIMEDOUT,
         "let us in and did not answer by UCX within " + so_long +
             ": check UCX_TLS and UCX_NET_DEVICES on both nodes, and that its ports are open between "
             "them, or wait longer (timeout=)");
    return;
  }
  // What the thread has not looked at for so long is not the peer's silence: it is heard at the next tick.
  if (stage_ == Stage::open && now > last_heard_ + timeout) {
    fail(driving, ETIMEDOUT, "said nothing for " + so_long);
    return;
  }
  for (const auto& call : gets_) {
    if (!call->is_done() && now > call->deadline) {
      fail(driving, ETIMEDOUT, "did not answer a one-sided read within " + so_long);
      return;
    }
  }
  for (const auto& call : take_late(now)) {
    call->fail(ETIMEDOUT);
  }
  if (stage_ == Stage::open && now > last_sent_ + ping_every_) {
    last_sent_ = now;
    post_control(ControlKind::ping, {}, {});
  }
}

bool UcxConnection::get_rkey(const RemoteMemory& memory, ucp_rkey_h& rkey) {
  const auto found = rkeys_.find(memory.key);
  if (found != rkeys_.end()) {
    rkey = found->second;
    return true;
  }
  if (worker_->libraries().ucp_ep_rkey_unpack(endpoint, memory.key.data(), &rkey) != UCS_OK) {
    return false;
  }
  rkeys_.emplace(memory.key, rkey);
  return true;
}

int UcxConnection::get(const RemoteMemory& memory, std::uint64_t offset, std::span<std::byte> buffer) {
  if (!worker_->options().one_sided) {
    return -ENOTSUP;
  }
  const auto call = make_call(worker_->options().timeout);
  // Kept by UCX until it is done with the buffer, which may be after everybody knows that the peer is gone.
  auto* const held = new std::shared_ptr<PendingCall>(call);
  const auto end = [&](int status) {
    call->complete({status, {}, {}});
    delete held;
  };
  const bool asked = worker_->as_driver([&](const Driving&) {
    ucp_rkey_h rkey = nullptr;
    if (stage_ != Stage::open || !get_rkey(memory, rkey)) {
      end(stage_ != Stage::open ? -ECONNRESET : -EINVAL);
      return;
    }
    ucp_request_param_t parameters{};
    parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    parameters.user_data = held;
    parameters.cb.send = [](void* request, ucs_status_t status, void* user) {
      auto* const whose = static_cast<std::shared_ptr<PendingCall>*>(user);
      (*whose)->complete({status == UCS_OK ? 0 : -ECONNRESET, {}, {}});
      delete whose;
      load_wire_libraries().ucp_request_free(request);
    };
    const ucs_status_ptr_t request = worker_->libraries().ucp_get_nbx(endpoint, buffer.data(), buffer.size(),
                                                                      memory.address + offset, rkey, &parameters);
    if (!UCS_PTR_IS_PTR(request)) {
      end(UCS_PTR_STATUS(request) == UCS_OK ? 0 : -ECONNRESET);
      return;
    }
    std::erase_if(gets_, [](const auto& one) { return one->is_done(); });
    gets_.push_back(call);
  });
  if (!asked) {
    end(-ECONNRESET);
  }
  worker_->wait_for(*call);
  return call->reply.status;
}

}  // namespace tiermap
