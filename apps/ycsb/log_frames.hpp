// How the log's bytes are laid out. docs/applications/ycsb.md describes the format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ycsb/checksum.hpp"

namespace tiermap {

/// The first bytes of a log.
struct LogHeader {
  static constexpr std::uint32_t current_version = 1;

  char magic[8] = {'T', 'I', 'E', 'R', 'R', 'E', 'D', 'O'};
  std::uint32_t version = current_version;
  std::uint32_t reserved = 0;
  std::uint64_t identity = 0;  ///< Of its pool.
  std::uint64_t checksum = 0;  ///< Of the bytes before.

  std::uint64_t computed_checksum() const noexcept {
    return checksum_of(std::as_bytes(std::span(this, 1)).first(offsetof(LogHeader, checksum)), version);
  }
};
static_assert(sizeof(LogHeader) == 32);

/// How a frame begins; its payload follows.
struct FrameHead {
  static constexpr std::uint64_t expected_magic = 0x454d4152464f4452;  // "RDOFRAME"

  std::uint64_t magic = expected_magic;
  std::uint64_t number = 0;  ///< One more than that of the frame before.
  std::uint64_t payload_bytes = 0;
  std::uint64_t payload_checksum = 0;
  std::uint64_t head_checksum = 0;

  /// Frames of other pools do not match.
  std::uint64_t computed_checksum(std::uint64_t identity) const noexcept {
    return checksum_of(std::as_bytes(std::span(this, 1)).first(offsetof(FrameHead, head_checksum)), identity);
  }
};

}  // namespace tiermap
