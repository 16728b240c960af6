// Who is who: both sides prove that they know a secret without sending it. A proof is an HMAC-SHA256 over what both
// drew by lot for this connection, so that none can be used twice.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace tiermap {

using WireNonce = std::array<std::byte, 32>;
using WireProof = std::array<std::byte, 32>;

/// From the kernel's generator. Throws PlatformError.
WireNonce draw_nonce();

/// What a side says to prove that it knows the secret of `user`. `side` tells the two apart, so that neither can answer
/// with what the other one said; `ticket` is what the client then shows over UCX, which nobody has told it.
struct ProofOf {
  enum class Side { client, server, ticket };
  Side side;
  std::string_view user;
  const WireNonce& client;
  const WireNonce& server;
};
WireProof make_proof(std::string_view secret, const ProofOf& of);

/// In the same time whatever the difference.
bool proof_holds(std::span<const std::byte> proof, std::string_view secret, const ProofOf& of);

}  // namespace tiermap
