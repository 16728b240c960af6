#include "cluster/wire/message_socket.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace tiermap {

MessageSocket::State MessageSocket::receive() {
  std::array<std::byte, longest_introduction_message> piece;
  for (;;) {
    const std::optional<std::size_t> length = message_length(incoming_);
    if (!length.has_value() || *length > longest_introduction_message) {
      return State::foreign;
    }
    // Who says more than his turn is read no further.
    if (*length != 0 && incoming_.size() >= *length) {
      return State::open;
    }
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
    if (got > 0) {
      incoming_.insert(incoming_.end(), piece.begin(), piece.begin() + got);
    } else if (got < 0 && errno == EINTR) {
      continue;
    } else {
      return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? State::open : State::ended;
    }
  }
}

bool MessageSocket::send_waiting() {
  while (!outgoing_.empty()) {
    const ssize_t put = ::send(socket_.get(), outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put > 0) {
      outgoing_.erase(outgoing_.begin(), outgoing_.begin() + put);
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

void MessageSocket::send(ControlKind kind, const WireWords& words, std::span<const std::byte> body) {
  const SealedMessage message = WireMessage::control(kind, words, body).seal(0);
  outgoing_.insert(outgoing_.end(), message.bytes.get(), message.bytes.get() + message.length);
}

std::optional<ArrivedMessage> MessageSocket::front() const noexcept {
  std::span<const std::byte> rest = incoming_;
  return take_message(rest);
}

void MessageSocket::pop() {
  std::span<const std::byte> rest = incoming_;
  take_message(rest);
  incoming_.erase(incoming_.begin(), incoming_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

}  // namespace tiermap
