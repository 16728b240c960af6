#include "cluster/wire/proof.hpp"

#include <sys/random.h>

#include <cerrno>
#include <string>

#include "cluster/wire/libraries.hpp"
#include "cluster/wire/message.hpp"
#include "tiermap/error.hpp"

namespace tiermap {

WireNonce draw_nonce() {
  WireNonce nonce;
  if (::getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw PlatformError(errno,
                        "the kernel gives no random bytes, without which nobody can prove who he is: see getrandom(2)");
  }
  return nonce;
}

WireProof make_proof(std::string_view secret, const ProofOf& of) {
  const WireLibraries& libraries = load_wire_libraries();
  std::string text = of.side == ProofOf::Side::client   ? "tiermap client "
                     : of.side == ProofOf::Side::server ? "tiermap server "
                                                        : "tiermap ticket ";
  text += std::to_string(wire_version) + ' ';
  for (const WireNonce* nonce : {&of.client, &of.server}) {
    text.append(reinterpret_cast<const char*>(nonce->data()), nonce->size());
  }
  text += of.user;
  WireProof proof{};
  unsigned length = 0;
  const bool made = libraries.HMAC(libraries.EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &length) != nullptr;
  if (!made || length != proof.size()) {
    throw PlatformError(ENOTSUP, "libcrypto makes no HMAC-SHA256 here: see the configuration of OpenSSL");
  }
  return proof;
}

bool proof_holds(std::span<const std::byte> proof, std::string_view secret, const ProofOf& of) {
  const WireProof right = make_proof(secret, of);
  return proof.size() == right.size() &&
         load_wire_libraries().CRYPTO_memcmp(proof.data(), right.data(), right.size()) == 0;
}

}  // namespace tiermap
