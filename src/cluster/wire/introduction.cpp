#include "cluster/wire/introduction.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "config/size.hpp"
#include "platform/clock.hpp"
#include "store/file_open.hpp"
#include "tiermap/error.hpp"

namespace tiermap {
namespace {

constexpr std::size_t longest_user = 64;

std::string versions(std::uint64_t server, std::uint64_t client) {
  return "speaks version " + std::to_string(server) + " and the client version " + std::to_string(client) +
         ": install the same Tiermap on both";
}

WireNonce nonce_in(std::span<const std::byte> body) {
  WireNonce nonce{};
  std::copy_n(body.begin(), std::min(body.size(), nonce.size()), nonce.begin());
  return nonce;
}

bool is(const ArrivedMessage& message, ControlKind kind) noexcept {
  return message.header.role == MessageHeader::Role::control && message.header.kind == static_cast<std::uint16_t>(kind);
}

/// The client's, from its first word to its last.
class ClientIntroduction {
 public:
  ClientIntroduction(FileDescriptor socket, const std::string& server, const WireLogin& login,
                     const IntroductionTerms& terms, bool loopback, std::uint64_t deadline)
      : socket_(std::move(socket)),
        server_(server),
        terms_(terms),
        loopback_(loopback),
        deadline_(deadline),
        secret_(login.secret) {
    peer_.user = login.user;
  }

  Introduced run() {
    client_nonce_ = draw_nonce();
    std::vector<std::byte> body(client_nonce_.begin(), client_nonce_.end());
    std::ranges::copy(std::as_bytes(std::span(peer_.user)), std::back_inserter(body));
    socket_.send(ControlKind::hello, {wire_version, terms_.timeout_milliseconds, terms_.largest_body, 0}, body);
    take_challenge(next(ControlKind::challenge));
    socket_.pop();
    take_welcome(next(ControlKind::welcome));
    return peer_;
  }

  /// Until one of these can be done.
  void wait(short what) {
    pollfd descriptor{socket_.descriptor(), what, 0};
    int ready = 0;
    do {
      const std::uint64_t now = now_nanoseconds();
      if (now >= deadline_) {
        fail(ETIMEDOUT, "did not answer within " + std::to_string(terms_.timeout_milliseconds) +
                            " ms: check that it runs, or wait longer (timeout=)");
      }
      ready = ::poll(&descriptor, 1, static_cast<int>((deadline_ - now) / 1'000'000U) + 1);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
  }

  [[noreturn]] void fail(int error_number, const std::string& why) const {
    throw StoreError(error_number, "server " + quote_value(server_) + " " + why);
  }

 private:
  ArrivedMessage next(ControlKind expected) {
    for (;;) {
      const bool sent = socket_.send_waiting();
      const MessageSocket::State state = socket_.receive();
      const std::optional<ArrivedMessage> message =
          state == MessageSocket::State::foreign ? std::nullopt : socket_.front();
      if (message.has_value() && message->intact) {
        if (is(*message, expected)) {
          return *message;
        }
        if (is(*message, ControlKind::refusal)) {
          const std::string text(reinterpret_cast<const char*>(message->body.data()), message->body.size());
          fail(EACCES, in_one_line(text));
        }
      }
      if (message.has_value() || state == MessageSocket::State::foreign) {
        fail(EPROTO, "is none of Tiermap's, by what it says: check host and port");
      }
      if (!sent || state == MessageSocket::State::ended) {
        fail(ECONNRESET, "hung up before it let anybody in: check host and port, and that it has room for one more");
      }
      wait(socket_.sending() ? POLLIN | POLLOUT : POLLIN);
    }
  }

  void take_challenge(const ArrivedMessage& message) {
    const bool asked = message.header.words[1] != 0;
    if (message.header.words[0] != wire_version) {
      fail(EPROTO, versions(message.header.words[0], wire_version));
    }
    if (asked && secret_.empty()) {
      fail(EACCES,
           "asks for a secret: give it in TIERMAP_SECRET, or in the file that TIERMAP_SECRET_FILE names, and whose it "
           "is in TIERMAP_USER");
    }
    if (!asked && !secret_.empty() && !loopback_) {
      fail(EACCES, "asks for no secret, and so cannot prove that it is the one meant: check the address");
    }
    server_nonce_ = nonce_in(message.body);
    if (!asked) {
      secret_.clear();
    }
    const WireProof proof = make_proof(secret_, proof_of(ProofOf::Side::client));
    socket_.send(ControlKind::proof, {}, std::span<const std::byte>(proof).first(asked ? proof.size() : 0));
  }

  void take_welcome(const ArrivedMessage& message) {
    if (!secret_.empty() && !proof_holds(message.body, secret_, proof_of(ProofOf::Side::server))) {
      fail(EACCES, "does not know the secret itself: check the address");
    }
    peer_.ticket = make_proof(secret_, proof_of(ProofOf::Side::ticket));
    peer_.timeout_milliseconds = message.header.words[1];
    peer_.largest_body =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(terms_.largest_body, message.header.words[2]));
    peer_.port = static_cast<std::uint16_t>(message.header.words[3]);
  }

  ProofOf proof_of(ProofOf::Side side) const noexcept { return {side, peer_.user, client_nonce_, server_nonce_}; }

  MessageSocket socket_;
  const std::string& server_;
  const IntroductionTerms& terms_;
  const bool loopback_;
  const std::uint64_t deadline_;
  std::string secret_;
  WireNonce client_nonce_{};
  WireNonce server_nonce_{};
  Introduced peer_;
};

}  // namespace

void ServerIntroduction::refuse(MessageSocket& socket, const std::string& text) {
  socket.send(ControlKind::refusal, {}, std::as_bytes(std::span(text)));
}

ServerIntroduction::Outcome ServerIntroduction::take(MessageSocket& socket, const ArrivedMessage& message) {
  if (message.intact && is(message, ControlKind::hello) && stage_ == Stage::greeting) {
    return take_hello(socket, message);
  }
  if (message.intact && is(message, ControlKind::proof) && stage_ == Stage::proving) {
    return take_proof(socket, message);
  }
  return Outcome::refused;
}

ServerIntroduction::Outcome ServerIntroduction::take_hello(MessageSocket& socket, const ArrivedMessage& message) {
  if (message.header.words[0] != wire_version) {
    refuse(socket, versions(wire_version, message.header.words[0]));
    return Outcome::refused;
  }
  const std::span<const std::byte> body = message.body;
  if (body.size() < client_nonce_.size() || body.size() > client_nonce_.size() + longest_user) {
    refuse(socket, "takes user names of up to " + std::to_string(longest_user) + " bytes");
    return Outcome::refused;
  }
  peer_.timeout_milliseconds = message.header.words[1];
  peer_.largest_body =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(terms_.largest_body, message.header.words[2]));
  client_nonce_ = nonce_in(body);
  const std::span<const std::byte> user = body.subspan(client_nonce_.size());
  peer_.user.assign(reinterpret_cast<const char*>(user.data()), user.size());
  server_nonce_ = draw_nonce();
  stage_ = Stage::proving;
  socket.send(ControlKind::challenge, {wire_version, terms_.secret_required ? 1U : 0U, 0, 0}, server_nonce_);
  return Outcome::going_on;
}

ServerIntroduction::Outcome ServerIntroduction::take_proof(MessageSocket& socket, const ArrivedMessage& message) {
  if (terms_.secret_required) {
    const std::optional<std::string> secret = service_ == nullptr ? std::nullopt : service_->secret_of(peer_.user);
    // For a user whom nobody knows the same work is done, with a secret that nobody knows.
    const WireNonce nobody = secret.has_value() ? WireNonce{} : draw_nonce();
    secret_ = secret.has_value() ? *secret : std::string(reinterpret_cast<const char*>(nobody.data()), nobody.size());
    if (!proof_holds(message.body, secret_, proof_of(ProofOf::Side::client)) || secret_.empty()) {
      refuse(socket, peer_.user.empty()
                         ? "lets nobody in without a name: give it in TIERMAP_USER"
                         : "does not let user " + quote_value(peer_.user) + " in: check the name and the secret");
      return Outcome::refused;
    }
  }
  stage_ = Stage::proved;
  return Outcome::proved;
}

Introduced ServerIntroduction::introduced() const {
  Introduced peer = peer_;
  peer.ticket = make_proof(secret_, proof_of(ProofOf::Side::ticket));
  if (!terms_.secret_required) {
    peer.user.clear();  // Whoever it says it is.
  }
  return peer;
}

void ServerIntroduction::admit(MessageSocket& socket, std::uint16_t port) const {
  const WireProof proof = make_proof(secret_, proof_of(ProofOf::Side::server));
  socket.send(ControlKind::welcome, {wire_version, terms_.timeout_milliseconds, terms_.largest_body, port},
              std::span<const std::byte>(proof).first(terms_.secret_required ? proof.size() : 0));
}

Introduced introduce_to(const SocketAddress& address, const std::string& server, const WireLogin& login,
                        const IntroductionTerms& terms, std::uint64_t deadline) {
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    throw StoreError(errno, "no socket to reach " + quote_value(server) + " with: " + error_text(errno));
  }
  constexpr int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  const int descriptor = socket.get();
  int failure = ::connect(descriptor, address.get(), address.bytes) == 0 ? 0 : errno;
  ClientIntroduction client(std::move(socket), server, login, terms, address.loopback(), deadline);
  if (failure == EINPROGRESS || failure == EINTR) {
    client.wait(POLLOUT);
    socklen_t bytes = sizeof(failure);
    ::getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &failure, &bytes);
  }
  if (failure != 0) {
    client.fail(ECONNREFUSED,
                "cannot be reached (" + error_text(failure) + "): check that `tiermap serve` runs there, and the port");
  }
  return client.run();
}

}  // namespace tiermap
