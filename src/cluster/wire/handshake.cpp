// Who is there: hello, challenge, proof, welcome. The members of UcxConnection that see to it.
#include <algorithm>
#include <cerrno>

#include "cluster/wire/ucx_connection.hpp"
#include "config/size.hpp"
#include "platform/clock.hpp"

namespace tiermap {
namespace {

constexpr std::size_t longest_user = 64;
constexpr std::uint64_t refusal_nanoseconds = 1'000'000'000;

std::string versions(std::uint64_t server, std::uint64_t client) {
  return "speaks version " + std::to_string(server) + " and the client version " + std::to_string(client) +
         ": install the same Tiermap on both";
}

WireNonce nonce_in(std::span<const std::byte> body) {
  WireNonce nonce{};
  std::copy_n(body.begin(), std::min(body.size(), nonce.size()), nonce.begin());
  return nonce;
}

}  // namespace

void UcxConnection::post_control(ControlKind kind, const WireWords& words, std::span<const std::byte> body) {
  worker_->post(shared_from_this(), WireMessage::control(kind, words, body).seal(0));
}

void UcxConnection::greet() {
  client_nonce_ = draw_nonce();
  std::vector<std::byte> body(client_nonce_.begin(), client_nonce_.end());
  std::ranges::copy(std::as_bytes(std::span(user_)), std::back_inserter(body));
  post_control(ControlKind::hello,
               {wire_version, static_cast<std::uint64_t>(worker_->options().timeout.count()), largest_body_, 0}, body);
}

void UcxConnection::refuse(const Driving&, const std::string& text) {
  post_control(ControlKind::refusal, {}, std::as_bytes(std::span(text)));
  close_at_ = now_nanoseconds() + refusal_nanoseconds;
}

void UcxConnection::become_open() {
  stage_ = Stage::open;
  open_.store(true, std::memory_order_release);
  opened_->complete({});
}

void UcxConnection::take_control(const Driving& driving, const ArrivedMessage& message) {
  if (!message.intact) {
    fail(driving, EBADMSG, "sent a message that was damaged on its way");
    return;
  }
  const auto kind = static_cast<ControlKind>(message.header.kind);
  if (kind == ControlKind::ping) {
    return;  // That it came is all it says.
  }
  if (kind == ControlKind::refusal && initiator_ && stage_ != Stage::open) {
    fail(driving, EACCES, std::string(reinterpret_cast<const char*>(message.body.data()), message.body.size()));
  } else if (kind == ControlKind::hello && !initiator_ && stage_ == Stage::greeting) {
    take_hello(driving, message);
  } else if (kind == ControlKind::challenge && initiator_ && stage_ == Stage::greeting) {
    take_challenge(driving, message);
  } else if (kind == ControlKind::proof && !initiator_ && stage_ == Stage::proving) {
    take_proof(driving, message);
  } else if (kind == ControlKind::welcome && initiator_ && stage_ == Stage::proving) {
    take_welcome(driving, message);
  } else {
    fail(driving, EPROTO, "does not keep to the handshake");
  }
}

/// The peer's timeout and sizes, which go into what both keep to.
void UcxConnection::agree(const WireWords& words) {
  const std::uint64_t theirs = std::clamp<std::uint64_t>(words[1], 10, 3'600'000) * 1'000'000U;
  ping_every_ = std::min(theirs, worker_->timeout_nanoseconds()) / 4;
  largest_body_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(largest_body_, words[2]));
}

void UcxConnection::take_hello(const Driving& driving, const ArrivedMessage& message) {
  if (message.header.words[0] != wire_version) {
    refuse(driving, versions(wire_version, message.header.words[0]));
    return;
  }
  const std::span<const std::byte> body = message.body;
  if (body.size() < client_nonce_.size() || body.size() > client_nonce_.size() + longest_user) {
    refuse(driving, "takes user names of up to " + std::to_string(longest_user) + " bytes");
    return;
  }
  agree(message.header.words);
  client_nonce_ = nonce_in(body);
  user_.assign(reinterpret_cast<const char*>(body.data()) + client_nonce_.size(), body.size() - client_nonce_.size());
  server_nonce_ = draw_nonce();
  stage_ = Stage::proving;
  post_control(ControlKind::challenge, {wire_version, worker_->options().secret_required ? 1U : 0U, 0, 0},
               server_nonce_);
}

void UcxConnection::take_challenge(const Driving& driving, const ArrivedMessage& message) {
  const bool asked = message.header.words[1] != 0;
  if (message.header.words[0] != wire_version) {
    fail(driving, EPROTO, versions(message.header.words[0], wire_version));
    return;
  }
  if (asked && secret_.empty()) {
    fail(driving, EACCES,
         "asks for a secret: give it in TIERMAP_SECRET, or in the file that TIERMAP_SECRET_FILE names");
    return;
  }
  if (!asked && !secret_.empty() && !peer_is_loopback_) {
    fail(driving, EACCES, "asks for no secret, and so cannot prove that it is the one meant: check the address");
    return;
  }
  server_nonce_ = nonce_in(message.body);
  stage_ = Stage::proving;
  if (!asked) {
    secret_.clear();
    post_control(ControlKind::proof, {}, {});
    return;
  }
  post_control(ControlKind::proof, {}, make_proof(secret_, proof_of(ProofOf::Side::client)));
}

void UcxConnection::take_proof(const Driving& driving, const ArrivedMessage& message) {
  WireProof proof{};
  std::span<const std::byte> answer;
  if (worker_->options().secret_required) {
    const std::optional<std::string> secret =
        worker_->service() == nullptr ? std::nullopt : worker_->service()->secret_of(user_);
    // For a user whom nobody knows the same work is done, with a secret that nobody knows.
    const WireNonce nobody = secret.has_value() ? WireNonce{} : draw_nonce();
    const std::string unknown(reinterpret_cast<const char*>(nobody.data()), nobody.size());
    const std::string& right = secret.has_value() ? *secret : unknown;
    if (!proof_holds(message.body, right, proof_of(ProofOf::Side::client)) || right.empty()) {
      refuse(driving, "does not let user " + quote_value(user_) + " in: check the name and the secret");
      return;
    }
    proof = make_proof(right, proof_of(ProofOf::Side::server));
    answer = proof;
  } else {
    user_.clear();  // Whoever it says it is.
  }
  post_control(ControlKind::welcome,
               {wire_version, static_cast<std::uint64_t>(worker_->options().timeout.count()),
                worker_->options().largest_body, 0},
               answer);
  become_open();
}

void UcxConnection::take_welcome(const Driving& driving, const ArrivedMessage& message) {
  if (!secret_.empty() && !proof_holds(message.body, secret_, proof_of(ProofOf::Side::server))) {
    fail(driving, EACCES, "does not know the secret itself: check the address");
    return;
  }
  agree(message.header.words);
  become_open();
}

}  // namespace tiermap
