// A message as it lies on the wire: 64 bytes of header, then the body. A frame, which is what UCX carries, is one
// message or several.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace tiermap {

/// What both sides speak. Raised whenever a message means something else than before: servers and clients of different
/// numbers refuse each other in the introduction, whose own layout never changes.
inline constexpr std::uint32_t wire_version = 9;

/// Numbers that go with a message; what they mean is its kind's business.
using WireWords = std::array<std::uint64_t, 4>;

/// What the header says, in this machine's byte order (little-endian on the wire, as is everything).
struct MessageHeader {
  enum class Role : std::uint16_t { request = 1, reply = 2, control = 3 };

  Role role = Role::request;
  std::uint16_t kind = 0;
  std::int32_t status = 0;  ///< Of a reply: 0 or a negative errno value.
  std::uint64_t id = 0;     ///< Of a request, and of the reply to it.
  WireWords words{};
};

inline constexpr std::size_t message_header_bytes = 64;

/// Messages of the introduction, of what follows it over UCX, and of staying in touch; kinds of requests are whatever
/// the service says.
enum class ControlKind : std::uint16_t { hello = 1, challenge, proof, welcome, refusal, ping, arrival, ready };

/// The bytes of a message, or of several.
struct SealedMessage {
  std::unique_ptr<std::byte[]> bytes;
  std::size_t length = 0;
};

/// A message on its way out, in one piece: the body is filled in place.
class WireMessage {
 public:
  /// A request. `body_bytes` are zeros until they are filled.
  explicit WireMessage(std::uint16_t kind, const WireWords& words = {}, std::size_t body_bytes = 0);
  /// The same with a copy of `body`.
  WireMessage(std::uint16_t kind, const WireWords& words, std::span<const std::byte> body);
  /// The answer to a request: `status` is 0 or a negative errno value.
  static WireMessage answer(std::int32_t status, const WireWords& words = {}, std::size_t body_bytes = 0);
  static WireMessage control(ControlKind kind, const WireWords& words = {}, std::span<const std::byte> body = {});

  std::span<std::byte> body() noexcept { return {bytes_.get() + message_header_bytes, body_bytes_}; }
  /// Makes the body shorter.
  void cut_body(std::size_t bytes) noexcept { body_bytes_ = bytes < body_bytes_ ? bytes : body_bytes_; }

  /// Writes the header, checksum included, and hands out the whole. `id` as in MessageHeader.
  SealedMessage seal(std::uint64_t id) &&;

 private:
  WireMessage(const MessageHeader& header, std::size_t body_bytes);

  MessageHeader header_;
  std::size_t body_bytes_;
  std::unique_ptr<std::byte[]> bytes_;
};

/// A message that came in: a view into its frame.
struct ArrivedMessage {
  MessageHeader header;
  std::span<const std::byte> body;
  bool intact = false;  ///< Header and body are what was sent, by their checksum (xxh3).
};

/// How long the message is that begins with `start`: 0 while too little of it is there to tell. Nothing if it is none
/// of this protocol, which the first wrong byte shows.
std::optional<std::size_t> message_length(std::span<const std::byte> start) noexcept;

/// Takes the first message off `frame`. Nothing if there is no whole one, or it is none of this protocol: then the rest
/// of the frame is worth nothing either.
std::optional<ArrivedMessage> take_message(std::span<const std::byte>& frame) noexcept;

}  // namespace tiermap
