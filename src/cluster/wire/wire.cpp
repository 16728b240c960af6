#include "cluster/wire/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "cluster/wire/pending_call.hpp"
#include "cluster/wire/ucx_connection.hpp"
#include "cluster/wire/wire_worker.hpp"
#include "config/size.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::uint32_t least_body = 4096;
constexpr std::uint32_t most_body = 64 << 20;

const WireOptions& checked(const WireOptions& options) {
  if (options.timeout < std::chrono::milliseconds(10) || options.timeout > std::chrono::hours(1)) {
    throw OptionError("a timeout of " + std::to_string(options.timeout.count()) + " ms: choose 10 ms to 1 hour");
  }
  if (options.largest_body < least_body || options.largest_body > most_body) {
    throw OptionError("messages of up to " + format_size(options.largest_body) + ": choose 4KiB to 64MiB");
  }
  return options;
}

}  // namespace

const WireReply& WireCall::wait() {
  if (!pending_->is_done()) {
    pending_->worker->wait_for(*pending_);
  }
  return pending_->reply;
}

WireRequest::WireRequest(std::shared_ptr<WireConnection> from, const MessageHeader& header, WireBody body) noexcept
    : from_(std::move(from)), header_(header), body_(std::move(body)) {}

WireRequest& WireRequest::operator=(WireRequest&& other) noexcept {
  if (this != &other) {
    if (from_ != nullptr) {
      reply(-EIO);
    }
    from_ = std::move(other.from_);
    header_ = other.header_;
    body_ = std::move(other.body_);
  }
  return *this;
}

WireRequest::~WireRequest() {
  if (from_ != nullptr) {
    reply(-EIO);
  }
}

void WireRequest::reply(WireMessage answer) {
  if (const std::shared_ptr<WireConnection> to = std::exchange(from_, nullptr); to != nullptr) {
    static_cast<UcxConnection&>(*to).answer(header_.id, std::move(answer));
  }
}

void WireRequest::refuse(std::int32_t status, std::string_view text) {
  WireMessage answer = WireMessage::answer(status, {}, text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), answer.body().data());
  reply(std::move(answer));
}

WireMemory::WireMemory(std::shared_ptr<WireWorker> worker, void* handle, RemoteMemory key) noexcept
    : worker_(std::move(worker)), handle_(handle), key_(std::move(key)) {}

WireMemory::~WireMemory() {
  worker_->unregister_memory(handle_);
}

Wire::Wire(const WireOptions& options, WireService* service)
    : worker_(std::make_shared<WireWorker>(checked(options), service)) {
  worker_->start();
}

Wire::~Wire() {
  worker_->shut_down();
}

std::uint16_t Wire::listen(const HostAndPort& address) {
  const SocketAddress resolved = resolve(address, worker_->options().family);
  if (!worker_->options().secret_required && !resolved.loopback()) {
    throw OptionError(
        "address " + quote_value(address.text()) +
        " is open to other machines: let the server's file name `users` (docs/cluster.md), or listen on 127.0.0.1");
  }
  return worker_->listen(resolved, address.text());
}

std::shared_ptr<WireConnection> Wire::connect(const HostAndPort& address, const WireLogin& login) {
  const std::shared_ptr<UcxConnection> connection =
      worker_->connect(resolve(address, worker_->options().family), address.text(), login);
  const std::shared_ptr<PendingCall> opened = connection->opened();
  worker_->wait_for(*opened);
  if (opened->reply.status != 0) {
    throw StoreError(-opened->reply.status, "server " + quote_value(address.text()) + " " + connection->failure());
  }
  return connection;
}

std::unique_ptr<WireMemory> Wire::register_memory(std::span<std::byte> memory) {
  return worker_->register_memory(memory);
}

}  // namespace tiermap
