#include "store/s3/signing.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace tiermap {
namespace {

using Sha256 = std::array<unsigned char, 32>;

constexpr std::size_t hash_block_bytes = 64;  // Of the hash.

Sha256 hash_of(const CurlFunctions& curl, std::string_view text) {
  Sha256 hash;
  curl.SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return hash;
}

std::string_view as_text(const Sha256& hash) {
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

/// HMAC (RFC 2104), with keys that are no longer than a block.
Sha256 keyed_hash_of(const CurlFunctions& curl, std::string_view key, std::string_view text) {
  std::string inner(hash_block_bytes, '\x36');
  std::string outer(hash_block_bytes, '\x5c');
  for (std::size_t at = 0; at < key.size(); ++at) {
    inner[at] = static_cast<char>(inner[at] ^ key[at]);
    outer[at] = static_cast<char>(outer[at] ^ key[at]);
  }
  const Sha256 hash = hash_of(curl, inner.append(text));
  return hash_of(curl, outer.append(as_text(hash)));
}

std::string hexadecimal_of(const Sha256& hash) {
  std::string text;
  for (const unsigned char byte : hash) {
    text += {"0123456789abcdef"[byte >> 4U], "0123456789abcdef"[byte & 15U]};
  }
  return text;
}

/// The value as it is signed: no blanks around it, and one for many within.
std::string signed_value(std::string_view value) {
  std::string text;
  for (const char character : value) {
    const bool blank = character == ' ' || character == '\t';
    if (!blank || (!text.empty() && text.back() != ' ')) {
      text += blank ? ' ' : character;
    }
  }
  return text.ends_with(' ') ? text.substr(0, text.size() - 1) : text;
}

}  // namespace

std::vector<std::string> sign_s3(const CurlFunctions& curl, const S3Settings& settings, const S3Signed& request,
                                 std::time_t now) {
  std::tm utc = {};
  ::gmtime_r(&now, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  const std::string day(stamp, 8);
  const std::string body_hash = hexadecimal_of(hash_of(curl, {request.body.data(), request.body.size()}));
  std::vector<std::string> added = {"host: " + std::string(request.host), "x-amz-content-sha256: " + body_hash,
                                    "x-amz-date: " + std::string(stamp)};
  if (!settings.session_token.empty()) {
    added.push_back("x-amz-security-token: " + settings.session_token);
  }
  std::map<std::string, std::string> by_name;
  for (const std::span<const std::string> headers : {request.headers, std::span<const std::string>(added)}) {
    for (const std::string& header : headers) {
      const std::size_t colon = header.find(':');
      std::string name = header.substr(0, colon);
      std::transform(name.begin(), name.end(), name.begin(), [](char character) {
        return character >= 'A' && character <= 'Z' ? static_cast<char>(character - 'A' + 'a') : character;
      });
      by_name[name] = signed_value(std::string_view(header).substr(colon + 1));
    }
  }
  std::string names;
  std::string canonical =
      std::string(request.method) + "\n" + std::string(request.path) + "\n" + std::string(request.query) + "\n";
  for (const auto& [name, value] : by_name) {
    names += (names.empty() ? "" : ";") + name;
    canonical += name + ":" + value + "\n";
  }
  canonical += "\n" + names + "\n" + body_hash;
  const std::string scope = day + "/" + settings.region + "/s3/aws4_request";
  const std::string text =
      "AWS4-HMAC-SHA256\n" + std::string(stamp) + "\n" + scope + "\n" + hexadecimal_of(hash_of(curl, canonical));
  const std::string secret = "AWS4" + settings.secret_key;
  // What is longer than a block counts by its hash.
  const Sha256 shortened = hash_of(curl, secret);
  Sha256 key =
      keyed_hash_of(curl, secret.size() > hash_block_bytes ? as_text(shortened) : std::string_view(secret), day);
  for (const std::string_view part : {std::string_view(settings.region), std::string_view("s3"),
                                      std::string_view("aws4_request"), std::string_view(text)}) {
    key = keyed_hash_of(curl, as_text(key), part);
  }
  added.push_back("authorization: AWS4-HMAC-SHA256 Credential=" + settings.access_key + "/" + scope +
                  ", SignedHeaders=" + names + ", Signature=" + hexadecimal_of(key));
  return added;
}

}  // namespace tiermap
