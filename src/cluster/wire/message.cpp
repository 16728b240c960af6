#include "cluster/wire/message.hpp"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "cluster/wire/body_checksum.hpp"

namespace tiermap {
namespace {

static_assert(std::endian::native == std::endian::little, "messages are written as they lie in memory");

constexpr std::uint32_t message_magic = 0x314d4d54;  // "TMM1"

/// The bytes themselves.
struct RawHeader {
  std::uint32_t magic;
  std::uint16_t role;
  std::uint16_t kind;
  std::uint64_t id;
  std::int32_t status;
  std::uint32_t body_bytes;
  WireWords words;
  std::uint64_t checksum;  ///< Of all above, and with that as seed of the body.
};
static_assert(sizeof(RawHeader) == message_header_bytes);

std::uint64_t checksum_of(const RawHeader& header, std::span<const std::byte> body) noexcept {
  const XXH64_hash_t seed = XXH3_64bits(&header, offsetof(RawHeader, checksum));
  return body_checksum(body, seed);
}

}  // namespace

WireMessage::WireMessage(const MessageHeader& header, std::size_t body_bytes)
    : header_(header),
      body_bytes_(body_bytes),
      bytes_(std::make_unique_for_overwrite<std::byte[]>(message_header_bytes + body_bytes)) {}

WireMessage::WireMessage(std::uint16_t kind, const WireWords& words, std::size_t body_bytes)
    : WireMessage(MessageHeader{MessageHeader::Role::request, kind, 0, 0, words}, body_bytes) {
  std::memset(body().data(), 0, body_bytes);
}

WireMessage::WireMessage(std::uint16_t kind, const WireWords& words, std::span<const std::byte> body_to_copy)
    : WireMessage(MessageHeader{MessageHeader::Role::request, kind, 0, 0, words}, body_to_copy.size()) {
  std::ranges::copy(body_to_copy, body().data());
}

WireMessage WireMessage::answer(std::int32_t status, const WireWords& words, std::size_t body_bytes) {
  return {MessageHeader{MessageHeader::Role::reply, 0, status, 0, words}, body_bytes};
}

WireMessage WireMessage::control(ControlKind kind, const WireWords& words, std::span<const std::byte> body_to_copy) {
  WireMessage message(MessageHeader{MessageHeader::Role::control, static_cast<std::uint16_t>(kind), 0, 0, words},
                      body_to_copy.size());
  std::ranges::copy(body_to_copy, message.body().data());
  return message;
}

SealedMessage WireMessage::seal(std::uint64_t id) && {
  RawHeader raw{message_magic,  static_cast<std::uint16_t>(header_.role), header_.kind,  id,
                header_.status, static_cast<std::uint32_t>(body_bytes_),  header_.words, 0};
  raw.checksum = checksum_of(raw, body());
  std::memcpy(bytes_.get(), &raw, sizeof(raw));
  return {std::move(bytes_), message_header_bytes + body_bytes_};
}

std::optional<std::size_t> message_length(std::span<const std::byte> start) noexcept {
  const std::size_t known = std::min(start.size(), sizeof(message_magic));
  if (known != 0 && std::memcmp(start.data(), &message_magic, known) != 0) {
    return std::nullopt;
  }
  if (start.size() < message_header_bytes) {
    return 0;
  }
  RawHeader raw;
  std::memcpy(&raw, start.data(), sizeof(raw));
  return message_header_bytes + std::size_t{raw.body_bytes};
}

std::optional<ArrivedMessage> take_message(std::span<const std::byte>& frame) noexcept {
  RawHeader raw;
  if (frame.size() < sizeof(raw)) {
    return std::nullopt;
  }
  std::memcpy(&raw, frame.data(), sizeof(raw));
  const bool known = raw.role >= static_cast<std::uint16_t>(MessageHeader::Role::request) &&
                     raw.role <= static_cast<std::uint16_t>(MessageHeader::Role::control);
  if (raw.magic != message_magic || !known || raw.body_bytes > frame.size() - sizeof(raw)) {
    return std::nullopt;
  }
  ArrivedMessage message;
  message.header = {static_cast<MessageHeader::Role>(raw.role), raw.kind, raw.status, raw.id, raw.words};
  message.body = frame.subspan(sizeof(raw), raw.body_bytes);
  message.intact = checksum_of(raw, message.body) == raw.checksum;
  frame = frame.subspan(sizeof(raw) + raw.body_bytes);
  return message;
}

}  // namespace tiermap
