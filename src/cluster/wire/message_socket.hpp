// Messages over a plain TCP socket: what an introduction is made of.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cluster/wire/message.hpp"
#include "store/file_descriptor.hpp"

namespace tiermap {

/// Of one message of an introduction, whole: the header, a nonce and a name, or a line of text.
inline constexpr std::size_t longest_introduction_message = 1024;

/// A socket that never blocks. Holds what has come and what has not gone yet, each at most one message of the longest.
class MessageSocket {
 public:
  explicit MessageSocket(FileDescriptor socket) noexcept : socket_(std::move(socket)) {}

  int descriptor() const noexcept { return socket_.get(); }
  /// Whether something waits to be sent.
  bool sending() const noexcept { return !outgoing_.empty(); }

  enum class State { open, ended, foreign };
  /// Takes what has come. `ended`: the peer is gone; `foreign`: it says what is no message of an introduction.
  State receive();
  /// Sends what waits, as far as it goes. False if the peer is gone.
  bool send_waiting();
  void send(ControlKind kind, const WireWords& words, std::span<const std::byte> body);
  /// The next message that is there as a whole; it lives until the next call of receive() or pop().
  std::optional<ArrivedMessage> front() const noexcept;
  void pop();

 private:
  FileDescriptor socket_;
  std::vector<std::byte> incoming_;
  std::vector<std::byte> outgoing_;
};

}  // namespace tiermap
