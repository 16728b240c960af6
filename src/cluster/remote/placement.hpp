// Where the bytes of a data set lie on its servers. Nothing here knows a server.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cluster/memory_protocol.hpp"

namespace tiermap {

class DataSetPlacement {
 public:
  explicit DataSetPlacement(const DataSetLayout& layout) noexcept : layout_(layout) {}

  /// How far from `offset` on, at most `bytes`, everything is on the same servers, one behind the other.
  std::uint64_t run(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return striped() ? std::min(bytes, layout_.stripe_bytes - offset % layout_.stripe_bytes) : bytes;
  }
  /// How many servers have a byte.
  std::uint32_t copies() const noexcept { return striped() ? layout_.copies : layout_.servers; }
  std::uint32_t server(std::uint64_t offset, std::uint32_t copy) const noexcept {
    return striped() ? static_cast<std::uint32_t>((offset / layout_.stripe_bytes + copy) % layout_.servers) : copy;
  }
  /// Where it has it. A server has `copies` stripes of each round of the servers.
  std::uint64_t local_offset(std::uint64_t offset, std::uint32_t copy) const noexcept {
    if (!striped()) {
      return offset;
    }
    const std::uint64_t round = offset / layout_.stripe_bytes / layout_.servers;
    return (round * layout_.copies + copy) * layout_.stripe_bytes + offset % layout_.stripe_bytes;
  }
  /// What each server has to have for so many bytes.
  std::uint64_t local_bytes(std::uint64_t bytes) const noexcept {
    if (!striped()) {
      return bytes;
    }
    const std::uint64_t round = layout_.stripe_bytes * layout_.servers;
    return (bytes + round - 1) / round * layout_.copies * layout_.stripe_bytes;
  }
  /// How far what servers have for so many bytes goes.
  std::uint64_t kept_bytes(std::uint64_t bytes) const noexcept {
    const std::uint64_t round = striped() ? layout_.stripe_bytes * layout_.servers : 1;
    return (bytes + round - 1) / round * round;
  }

 private:
  bool striped() const noexcept { return layout_.kind == DataSetLayout::Kind::striped; }

  DataSetLayout layout_;
};

}  // namespace tiermap
