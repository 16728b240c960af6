// Who is there: hello, challenge, proof, welcome, over a plain TCP socket. Only for who has come to the end of it UCX
// listens, at a port that the welcome names and until he has shown his ticket there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "cluster/wire/address.hpp"
#include "cluster/wire/message_socket.hpp"
#include "cluster/wire/proof.hpp"
#include "cluster/wire/wire.hpp"
#include "platform/clock.hpp"

namespace tiermap {

/// For an introduction, and for what follows it, whatever the timeout: together they are some round trips.
inline constexpr std::uint64_t longest_introduction_nanoseconds = 10'000'000'000;

/// What a side says of itself.
struct IntroductionTerms {
  std::uint64_t timeout_milliseconds = 0;
  std::uint32_t largest_body = 0;
  bool secret_required = false;
};

/// What a side knows of the other at the end.
struct Introduced {
  std::string user;  ///< Proved, or "" where no secret was asked for.
  std::uint64_t timeout_milliseconds = 0;
  std::uint32_t largest_body = 0;           ///< Of both.
  WireProof ticket{};                       ///< The same on both sides, and never sent before the client shows it.
  std::uint16_t port = 0;                   ///< Where UCX listens, at the server.
  std::uint64_t began = now_nanoseconds();  ///< Of the timeout, the rest is for meeting over UCX.
};

/// The server's side, a step for each message. Nothing waits here.
class ServerIntroduction {
 public:
  ServerIntroduction(const IntroductionTerms& terms, WireService* service) : terms_(terms), service_(service) {}

  enum class Outcome { going_on, proved, refused };
  /// Takes a message and puts the answer into `socket`. `proved`: admit() or refuse() is next. `refused`: once the
  /// answer is sent, if there is one, that was all.
  Outcome take(MessageSocket& socket, const ArrivedMessage& message);
  /// Whom admit() lets in.
  Introduced introduced() const;
  /// Says where UCX listens for him.
  void admit(MessageSocket& socket, std::uint16_t port) const;
  static void refuse(MessageSocket& socket, const std::string& text);

 private:
  enum class Stage { greeting, proving, proved };
  Outcome take_hello(MessageSocket& socket, const ArrivedMessage& message);
  Outcome take_proof(MessageSocket& socket, const ArrivedMessage& message);
  ProofOf proof_of(ProofOf::Side side) const noexcept { return {side, peer_.user, client_nonce_, server_nonce_}; }

  const IntroductionTerms& terms_;
  WireService* const service_;
  Stage stage_ = Stage::greeting;
  WireNonce client_nonce_{};
  WireNonce server_nonce_{};
  std::string secret_;
  Introduced peer_;
};

/// The client's side: connects, and returns once the server has let it in. Throws StoreError, in one line that begins
/// with `server` as it is quoted, at the latest at `deadline` (now_nanoseconds()).
Introduced introduce_to(const SocketAddress& address, const std::string& server, const WireLogin& login,
                        const IntroductionTerms& terms, std::uint64_t deadline);

}  // namespace tiermap
